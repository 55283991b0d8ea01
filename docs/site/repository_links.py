"""A hook of MkDocs: links from docs/ to other files of the repository lead to the forge that shows them.

In the documents these links are relative, such as ``../deploy/config.yaml``, so that they work wherever the repository
is shown, on every branch. The site has only docs/, so there they need the address of the repository.
"""

import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
_LOG = logging.getLogger("mkdocs.hooks.repository_links")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The page, with the addresses of files outside of docs/; MkDocs calls it for each page.

    A link that leads nowhere is a warning, with which ``mkdocs build --strict`` fails.
    """

    def address(link: re.Match[str]) -> str:
        path, anchor = link[1], link[2] or ""
        if not (ROOT / path).exists():
            _LOG.warning("%s: expected a file or folder of the repository, found ../%s", page.file.src_uri, path)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({config.repo_url.rstrip('/')}/{kind}/main/{path}{anchor})"

    in_folder = "/" in page.file.src_uri  # from there ../ leads to a page of docs/, which MkDocs knows
    return markdown if in_folder else _LINK.sub(address, markdown)
