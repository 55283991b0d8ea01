"""The page of ``gpu-topology page``: a cluster at a glance, live or as one file.

An :class:`webhook.insight.overview.model.Overview` becomes blocks, which are trees of elements (``blocks.py``). A file
has them as HTML (``document.py``). A browser gets those that changed as JSON, and builds the same elements
(``assets/page.js``). ``server.py`` and what it imports serve them; the rest does no I/O.
"""
