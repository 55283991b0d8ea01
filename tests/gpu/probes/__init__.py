"""Programs of ``make gpu``: each tries one thing on one card, prints what it saw as JSON, and ends with 0 if it holds.

Exit code 1: it does not hold; 2: it could not be tried. The last line of stderr says why.
"""
