"""What a browser is told: how the server stands, and the blocks that it does not have yet."""

import msgspec

from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.page.blocks import Blocks


class _News(msgspec.Struct):
    whole: bool
    blocks: dict[str, msgspec.Raw]
    gone: list[str]
    standing: Standing


def news(found: Blocks, told: Blocks | None, standing: Standing) -> bytes:
    """What a browser has to hear, as JSON without line ends.

    Args:
        found: The blocks of its language.
        told: Those that it was told last; None: it knows nothing.
        standing: How the server stands.
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
