"""The command line: one module for each command. Commands parse arguments, call the core and print the result.

Modules here import heavy libraries inside their functions, so that each command loads only what it uses.
"""
