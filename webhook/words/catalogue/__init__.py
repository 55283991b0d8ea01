"""The messages about pods, Bindings and nodes: each sentence once, with a code that never changes its meaning.

The first digit of a code names the area: 1 opting in, 2 cards and HAMi, 3 links, 4 variables, 5 peers, 6 placement,
7 nodes, 8 installation, 9 traffic.
"""
