"""``idle_counters SECONDS``: while nothing runs, NVLink moves no more than a measurement takes for nothing."""

import sys
import time

from tests.gpu.probes.ending import ended, not_tried
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import Direction
from webhook.hardware.measurement.messages import Method
from webhook.hardware.measurement.moved_bytes import moved
from webhook.hardware.measurement.verdict import NOT_CARRIED


def main() -> None:
    """Read the counters of all cards twice."""
    reader = CounterReader()
    before = reader.read()
    if not before:
        not_tried("NVML does not start")
    time.sleep(float(sys.argv[1]))
    after = reader.read()
    seen = {card.uuid: {way.value: moved(before, after, card.uuid, way) for way in Direction} for card in before}
    numbers = [number for card in seen.values() for number in card.values() if number is not None]
    if not numbers:
        not_tried("no card here counts bytes over NVLink")
    most = NOT_CARRIED * Method().copy_bytes
    ended(seen, f"{max(numbers)} bytes moved while nothing ran" if max(numbers) > most else "")


if __name__ == "__main__":
    main()
