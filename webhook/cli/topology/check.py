"""``gpu-topology topology check``: what NCCL would make of a topology file."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.topology.output import UNMET, Output

if TYPE_CHECKING:
    from webhook.topology.nccl.report import Report


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File that NCCL_TOPO_FILE would name; - reads stdin.")],
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Say what NCCL 2.30 makes of a topology file, line by line.

    Ends with exit code 0 if NCCL reads what the file means, else with 1.
    """
    from webhook.cli.topology.source import read_bytes
    from webhook.topology.document import MAX_BYTES
    from webhook.topology.nccl.check import check as check_nccl

    data, source = read_bytes(file, limit=MAX_BYTES)
    report = check_nccl(data)
    typer.echo(_json(report) if output is Output.JSON else str(report))
    if not report.clean:
        complain(f"gpu-topology: {source}: {_verdict(report)}")
        raise typer.Exit(UNMET)


def _verdict(report: "Report") -> str:
    if not report.accepted:
        return "NCCL refuses to start with this file"
    return "NCCL takes this file, but reads something else than is written there"


def _json(report: "Report") -> str:
    from dataclasses import asdict

    return json.dumps({"accepted": report.accepted, "clean": report.clean} | asdict(report), indent=2)
