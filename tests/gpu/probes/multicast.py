"""``multicast UUID``: a multicast object of one card is made, bound and freed, as NVLS needs it between cards."""

import sys
from typing import Any

from tests.gpu.probes.ending import ended, not_tried
from webhook.programs.verify.cuda import Cuda
from webhook.programs.verify.errors import explained
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.measure import Cards
from webhook.programs.verify.multicast import Multicast


def main() -> None:
    """Try it on one card."""
    uuids = [sys.argv[1]]
    try:
        multicast = Multicast(Cards(Cuda()))
        is_supported = multicast.is_supported(uuids)
    except OSError as error:
        not_tried(str(error))
    except CallFailed as error:
        not_tried(explained(error.function, error.code))
    if not is_supported:
        not_tried("the driver says that this card has no multicast")
    seen: dict[str, Any] = {"done": multicast.done}
    try:
        seen["granularity"] = multicast.make(uuids)
    except CallFailed as error:
        ended(seen, explained(error.function, error.code))
    ended(seen)


if __name__ == "__main__":
    main()
