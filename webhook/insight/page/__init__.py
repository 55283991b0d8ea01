"""The page of ``gpu-topology page``: a cluster at a glance, live or as one file.

An :class:`webhook.insight.overview.model.Overview` becomes blocks, which are trees of elements (``blocks.py``). A file
has the blocks as HTML (``document.py``). A browser gets the blocks that changed as JSON, and builds the same elements
(``assets/page.js``). ``server.py`` and the modules that it imports serve the page; the other modules do no I/O.
"""
