"""``gpu-topology verify``: the measurement of bandwidths between the GPUs of this machine, and its verdict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption
from webhook.cli.output import Output

if TYPE_CHECKING:
    from webhook.hardware.measurement.report import BandwidthReport
    from webhook.programs.verify.run import Wanted

WORSE, NOTHING = 1, 2
"""The exit codes for a result below expectation, and for no measurement."""
_MIB = 1024 * 1024
_STEPS = 8
"""The number of steps that the other pod may take until it comes, and then again until both are done."""

_OF_REPORTS = ("file", "against", "save", "output")
_OF_METHODS = ("all_reduce", "size", "samples")
_OF_MEASUREMENTS = ("gpus", *_OF_METHODS)
_OF_MACHINES = ("force", "step_seconds", "node", "root")
_OF_PUBLISHING = ("publish", "namespace", "kubeconfig", "context")
"""The names of options, by their purpose."""


def verify(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    called: typer.Context,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="REPORT", help="Show a report; measure nothing.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="REPORT", help="An earlier report: what became slower since.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="REPORT", help="Write the report there too, as JSON.")] = None,
    output: Annotated[
        Output,
        typer.Option("--output", "-o", help="text or json (BandwidthReport)."),
    ] = Output.TEXT,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="INDICES", help="GPUs to measure, such as 0,3; else all. Between two pods: of this side."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Use GPUs too that other processes use.")] = False,
    all_reduce: Annotated[bool, typer.Option(help="Measure an all-reduce too, with the NCCL that is here.")] = True,
    size: Annotated[int, typer.Option(min=1, max=8192, metavar="MIB", help="Of one copy.")] = 256,
    samples: Annotated[int, typer.Option(min=1, max=100, help="Of each measurement; the median counts.")] = 5,
    step_seconds: Annotated[float, typer.Option(min=1, max=600, help="How long one measurement may take.")] = 60.0,
    node: Annotated[
        str | None, typer.Option(envvar="NODE_NAME", metavar="NODE", help="Name of the node, for the report.")
    ] = None,
    root: Annotated[Path, typer.Option(metavar="DIR", help="Where the host's /sys and /proc are.")] = Path("/"),
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Offer GPU memory to another pod: HOST:PORT or a UNIX socket.")
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Measure how fast the memory of the pod that listens there can be used."),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="POD", help="Write what the report says of the GPUs of this pod onto it.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Of the pod of --publish.")
    ] = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
) -> None:
    """Measure how fast the GPUs here reach each other, and compare it with what their links should carry.

    Each result is shown on a terminal, and in the file of --save, as soon as it is there. Ctrl-C and SIGTERM end the
    measurements, and the report has what was measured.

    Uses libcuda.so.1 and libnccl.so.2 of the container that it runs in. No hardware has run it yet.

    Ends with exit code 1 if something is not as expected or became slower, 2 if nothing can be measured.
    """
    import platform

    from webhook.cli.topology.show import parse_indices
    from webhook.hardware.measurement.report import format_report
    from webhook.programs.verify.process import Method
    from webhook.programs.verify.run import Wanted

    node = node or platform.node() or "node"
    if listen or peer:
        if listen and peer:
            raise typer.BadParameter("one pod listens and the other is its peer", param_hint="--peer")
        useless = ("file", "against", *_OF_METHODS, *_OF_PUBLISHING)
        _refuse_given(called, useless, "--listen and --peer measure one pair of GPUs in one way")
        side = Wanted(node=node, root=root, gpus=tuple(parse_indices(gpus)), force=force, step_seconds=step_seconds)
        _try_with_peer(listen, peer, side, save, output)
        return
    if not publish:
        _refuse_given(called, _OF_PUBLISHING, "it says where --publish finds the pod")
    earlier = _read(against) if against else None
    if file:
        _refuse_given(called, (*_OF_MEASUREMENTS, *_OF_MACHINES), "--file shows a report and measures nothing")
        report = _read(file)
    else:
        wanted = Wanted(
            node=node,
            root=root,
            gpus=tuple(parse_indices(gpus)),
            force=force,
            method=Method(copy_bytes=size * _MIB, samples=samples),
            step_seconds=step_seconds,
            all_reduce=all_reduce,
        )
        report = _measure(wanted, save)
    as_json = format_report(report)
    if save:
        _write(as_json, save)
    if output is Output.JSON:
        from webhook.words.printable import printable_json

        typer.echo(printable_json(as_json), nl=False)
    else:
        _print_table(report)
    if publish:
        from webhook.cli.kubeconfig import namespace_of_context, wanted_cluster
        from webhook.cli.publishing import publish as publish_onto

        cluster = wanted_cluster(kubeconfig, context)
        pod = publish.removeprefix("pod/")
        complain(publish_onto(report, cluster, namespace or namespace_of_context(cluster), pod))
    slower = _compare(earlier, report) if earlier else False
    if slower or not report.is_as_expected:
        raise typer.Exit(WORSE)


def _refuse_given(called: typer.Context, options: tuple[str, ...], why: str) -> None:
    """Raises BadParameter for the first of these options on the command line, because it would have no effect."""
    for parameter in called.command.params:
        source = called.get_parameter_source(parameter.name or "")
        if source and source.name == "COMMANDLINE" and parameter.name in options:
            raise typer.BadParameter(f"it has no effect here: {why}", param_hint=max(parameter.opts, key=len))


def _try_with_peer(listen: str | None, peer: str | None, wanted: "Wanted", save: Path | None, output: Output) -> None:
    """Print a PeerReport, and end with exit code 1 if the verdict is not as expected."""
    import msgspec

    from webhook.hardware.measurement.peers import Conclusion
    from webhook.insight.drawings.peers import peer_text
    from webhook.programs.verify.peers import connected, listening, offer_all, side_here, take_all
    from webhook.words.printable import printable, printable_json

    side, seconds = side_here(wanted), _STEPS * wanted.step_seconds
    if listen:
        with listening(listen, seconds) as channel:
            report = offer_all(side, channel)
    else:
        with connected(peer or "", seconds) as channel:
            report = take_all(side, channel)
    as_json = msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    if save:
        _write(as_json, save)
    if output is Output.JSON:
        typer.echo(printable_json(as_json), nl=False)
    else:
        labels = {gpu.uuid: gpu.label for gpu in side.topology.gpus if gpu.uuid}
        for line in peer_text(report, labels).splitlines():
            typer.echo(printable(line))
    if report.verdict is not Conclusion.AS_EXPECTED:
        raise typer.Exit(WORSE)


def _measure(wanted: "Wanted", save: Path | None) -> "BandwidthReport":
    """Returns the report; a partial one after Ctrl-C or SIGTERM. Until then ``save`` has each result at once."""
    import signal
    import sys

    from webhook.hardware.measurement.report import format_report
    from webhook.insight.drawings.bandwidth import last_result
    from webhook.programs.verify.run import NothingToMeasure, measured

    def tell(line: str) -> None:
        if line and sys.stderr.isatty():
            complain(line)

    def show(report: "BandwidthReport") -> None:
        tell(last_result(report))
        if save:
            _write(format_report(report), save)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return measured(wanted, lambda step: tell(f"measuring {step}"), show)
    except NothingToMeasure as nothing:
        complain(f"gpu-topology: {nothing}")
        raise typer.Exit(NOTHING) from None


def _read(path: Path) -> "BandwidthReport":
    from webhook.cli.topology.source import read_bytes
    from webhook.hardware.measurement.report import MAX_BYTES, parse_report

    data, source = read_bytes(str(path), limit=MAX_BYTES)
    return parse_report(data, source=source)


def _write(report: str, path: Path) -> None:
    from webhook.words.errors import GpuTopologyError

    try:
        path.write_text(report, encoding="utf-8")
    except OSError as error:
        raise GpuTopologyError(f"{path}: the report cannot be written: {error.strerror}") from None


def _print_table(report: "BandwidthReport") -> None:
    from webhook.cli.topology.colours import terminal
    from webhook.insight.drawings.bandwidth import legend, lines, measured_matrix
    from webhook.words.printable import printable

    console = terminal()
    typer.echo(f"GB/s from the GPU of the row to that of the column, node {printable(report.node)}")
    if console:
        console.print(measured_matrix(report, console.width))
    else:
        typer.echo(measured_matrix(report).plain)
    for line in (legend(report), *lines(report)):
        if line:
            typer.echo(printable(line))


def _compare(earlier: "BandwidthReport", report: "BandwidthReport") -> bool:
    """Print the pairs that became slower to standard error, apart from the output; returns whether there are any."""
    from webhook.hardware.measurement.report import compare
    from webhook.insight.drawings.bandwidth import comparison_lines

    found = compare(earlier, report)
    for line in comparison_lines(found, report):
        complain(line)
    return bool(found.slower)
