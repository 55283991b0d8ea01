"""The requirements of a job on its GPUs, as options of several commands."""

from typing import Annotated

import typer

from webhook.words.choices import Level

_DIGITS = 6


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise typer.BadParameter(f"expected how many GPUs the job needs, such as 2, found {text!r}")
    return int(text)


Gpus = Annotated[int, typer.Option(parser=_count, metavar="COUNT", help="How many GPUs the job needs.")]
RequireNvlink = Annotated[bool, typer.Option("--require-nvlink", help="NVLink between every pair.")]
SameNuma = Annotated[bool, typer.Option("--same-numa", help="The GPUs of a node on one NUMA node.")]
MinLevel = Annotated[Level | None, typer.Option(case_sensitive=False, help="The farthest that any two may be apart.")]
MinBandwidth = Annotated[float, typer.Option(metavar="GB/S", help="GB/s per direction of the weakest pair.")]


def check_bandwidth(name: str, value: float, *, zero: bool) -> None:
    """Raises BadParameter if the value is no valid number of GB/s; ``nan`` and ``inf`` are not."""
    from math import isfinite

    if not isfinite(value) or value < 0 or (value == 0 and not zero):
        expected = "0 or more" if zero else "more than 0"
        raise typer.BadParameter(f"expected GB/s, {expected}, found {value}", param_hint=name)
