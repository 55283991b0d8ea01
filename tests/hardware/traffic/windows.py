"""Traffic of cards, in the words of tests."""

from datetime import UTC, datetime, timedelta

from webhook.hardware.traffic.model import Traffic, Window

AT = datetime(2026, 11, 23, 3, 20, 10, tzinfo=UTC)
A, B = "GPU-a", "GPU-b"
MB = 1_000_000
LENGTHS = (60, 300)


def ago(seconds: float) -> datetime:
    return AT - timedelta(seconds=seconds)


def steady(
    *,
    nvlink: float | None = 0,
    pcie: float | None = 100 * MB,
    busy: float | None = 1.0,
    lengths: tuple[int, ...] = LENGTHS,
) -> tuple[Window, ...]:
    """A card that has done the same all the time; rates for each second, and the mean utilisation."""
    return tuple(
        Window(
            seconds=seconds,
            nvlink=None if nvlink is None else round(nvlink * seconds),
            pcie=None if pcie is None else round(pcie * seconds),
            utilization=busy,
        )
        for seconds in lengths
    )


def of(**cards: tuple[Window, ...]) -> Traffic:
    """Of the cards ``a`` and ``b``."""
    return Traffic(at=AT, cards={f"GPU-{name}": windows for name, windows in cards.items()})


def both(windows: tuple[Window, ...]) -> Traffic:
    return of(a=windows, b=windows)
