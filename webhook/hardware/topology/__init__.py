"""The topology of a node: its values, conclusions from them, and written forms. Pure; standard library only."""
