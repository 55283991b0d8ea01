"""The topology of a node: values, what follows from them, and the written forms. Pure; standard library only."""
