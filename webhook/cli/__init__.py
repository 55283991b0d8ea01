"""The command line: one module for each command. They parse arguments, call the core and print what it returned.

Modules here import what is heavy inside their functions, so that each command loads only what it uses.
"""
