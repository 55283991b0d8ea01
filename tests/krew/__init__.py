"""Packs the plugin of kubectl for krew: an archive for each platform, and the manifest that names them."""
