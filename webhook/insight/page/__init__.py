"""The page of ``gpu-topology page``: a cluster at a glance, live or as one file.

``view.py`` chooses what is shown of an :class:`webhook.insight.overview.model.Overview`, and ``markup.py`` makes it
HTML with the templates. Both do no I/O. ``following.py`` keeps the overview new. ``server.py`` serves it to a browser,
whose script (``assets/page.js``) fetches the contents again every two seconds.
"""
