"""The message to a browser: whether the cluster is followed, and the blocks that the browser does not have yet."""

import msgspec

from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.page.blocks import Blocks


class _News(msgspec.Struct):
    whole: bool
    blocks: dict[str, msgspec.Raw]
    gone: list[str]
    standing: Standing


def news(found: Blocks, told: Blocks | None, standing: Standing) -> bytes:
    """Returns the message to a browser, as JSON without line ends.

    Args:
        found: The blocks in the language of the browser.
        told: The blocks that the browser got last; None: it has none.
        standing: Whether the cluster is followed.
    """
    before = told or {}
    return msgspec.json.encode(
        _News(
            whole=told is None,
            blocks={key: block.written for key, block in found.items() if before.get(key) is not block},
            gone=[key for key in before if key not in found],
            standing=standing,
        )
    )
