"""``local_copy UUID``: copies within one card have a rate that its memory can have, so units and events are right."""

import sys

from tests.gpu.probes.ending import ended, not_tried
from webhook.hardware.measurement.messages import Method
from webhook.hardware.measurement.samples import middle, rates
from webhook.programs.verify.cuda import Cuda
from webhook.programs.verify.errors import explained
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.measure import Cards, buffer, repeated, timed

_SIZE, _COPIES = 1024**3, 16
LEAST, MOST = 300.0, 9000.0
"""GB/s read and written that a card with NVLink may have: HBM2 of a V100 has 900, HBM3e of a B200 8,000. An H200 copies
with some 4,300. An error of a unit would be a factor of 1,000."""


def main() -> None:
    """Measure the card."""
    try:
        cards = Cards(Cuda())
        found = _rate(cards, sys.argv[1])
    except OSError as error:
        not_tried(str(error))
    except CallFailed as error:
        not_tried(explained(error.function, error.code))
    holds = LEAST <= found <= MOST
    problem = "" if holds else "no memory of a card has this rate"
    ended({"readAndWrittenGBps": found}, problem, f"{found:.1f} GB/s read and written")


def _rate(cards: Cards, uuid: str) -> float:
    cuda, card = cards.cuda, cards.card(uuid)
    with buffer(cuda, card, _SIZE) as source, buffer(cuda, card, _SIZE) as target, cuda.stream(card) as stream:

        def queue() -> None:
            for _ in range(_COPIES):
                cuda.library.call("cuMemcpyDtoDAsync_v2", target, source, _SIZE, stream)

        times = repeated(Method(), lambda: timed(cuda, card, stream, queue))
    return 2 * (middle(rates(_SIZE * _COPIES, times)) or 0.0)


if __name__ == "__main__":
    main()
