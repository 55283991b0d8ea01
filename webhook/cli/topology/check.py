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
    """Say what NCCL 2.30 makes of a topology file.

    Ends with exit code 0 if NCCL reads what the file means, else with 1.
    """
    from webhook.cli.topology.colours import print_lines
    from webhook.cli.topology.source import read_bytes
    from webhook.draw.nccl_check import report_lines, verdict
    from webhook.topology.document import MAX_BYTES
    from webhook.topology.nccl.check import check as check_nccl

    data, source = read_bytes(file, limit=MAX_BYTES)
    report = check_nccl(data)
    if output is Output.JSON:
        typer.echo(_json(report))
    else:
        print_lines(report_lines(report))
    if not report.clean:
        complain(f"gpu-topology: {source}: {verdict(report).rstrip('.')}")
        raise typer.Exit(UNMET)


def _json(report: "Report") -> str:
    from dataclasses import asdict

    return json.dumps({"accepted": report.accepted, "clean": report.clean} | asdict(report), indent=2)
