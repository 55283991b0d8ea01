"""``gpu-topology acceptance``: the trial of this project's claims on a machine with GPUs, packed into an archive."""

import shutil
import socket
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.output import UNMET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from webhook.programs.acceptance.judge import Seen
    from webhook.programs.acceptance.model import Ran, Step, Verdict
    from webhook.programs.acceptance.pods import Cluster

_UNTRIED = 2


def acceptance(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The archive; without, acceptance-<time>.tar.gz here."),
    ] = None,
    python: Annotated[
        str, typer.Option(metavar="PROGRAM", help="The Python that has PyTorch, for the training steps.")
    ] = "python3",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", metavar="NAMESPACE", help="Of a cluster, one that has opted in: pods are tried there."
        ),
    ] = "",
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Of the webhook, for these pods.")] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the cluster; without, as kubectl finds it.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Print what would be run on this machine, and run only what looks.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin, and write the archive, without asking.")] = False,
) -> None:
    """Try on this machine what this project claims, and write one archive with all that was seen.

    It takes at most half an hour, and 20 minutes more with pods. It uses all GPUs: no job should run on them. What
    tells whose machine it is is taken out of the archive, and its content is listed before it is written. Nothing is
    sent anywhere.

    Ends with exit code 0 if all that could be tried holds, with 1 if a claim fails, with 2 if nothing could be tried.
    """
    from webhook.cli.columns import table_console

    console = table_console()
    cluster = _cluster(namespace, image, kubeconfig)
    folder = Path(tempfile.mkdtemp(prefix="gpu-topology-acceptance-"))
    try:
        found = _tried(folder, python, cluster, console, dry_run=dry_run, yes=yes)
        if found is None:
            return
        seen, judged = found
        _print_verdicts(judged, console)
        _pack(seen, judged, cluster, output, console, yes=yes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(_exit_code(judged))


def _cluster(namespace: str, image: str, kubeconfig: Path | None) -> "Cluster | None":
    from webhook.programs.acceptance.pods import Cluster

    if bool(namespace) != bool(image):
        raise typer.BadParameter("give --namespace and --image, or neither", param_hint="--namespace")
    options = ("--kubeconfig", str(kubeconfig.absolute())) if kubeconfig else ()
    return Cluster(namespace=namespace, image=image, options=options) if namespace else None


def _tried(
    folder: Path, python: str, cluster: "Cluster | None", console: "Console", *, dry_run: bool, yes: bool
) -> "tuple[Seen, Sequence[Verdict]] | None":
    """Run the steps, and return the observations and verdicts; None after a dry run, or if the user declines."""
    from webhook.programs.acceptance import steps
    from webhook.programs.acceptance.judge import Seen, verdicts

    ran = _run(steps.first_steps(), folder, console)
    topology = _seen(ran, folder).topology
    planned: list[Step] = []
    if topology and topology.gpus:
        planned += steps.steps_for(topology, str(folder), python, _libraries(python))
    planned += _with_pods(cluster, folder) if cluster else []
    _print_plan(planned, console)
    if dry_run or (planned and not yes and not typer.confirm("Run them now?", default=True)):
        return None
    if planned:
        script = folder / steps.SCRIPT
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_training_script(), script)
    ran |= _run(planned, folder, console)
    seen: Seen = _seen(ran, folder)
    return seen, verdicts(seen)


def _libraries(python: str) -> str:
    """LD_LIBRARY_PATH with the NCCL of the Python that has PyTorch first; empty if that has none."""
    import os

    from webhook.programs.acceptance.nccl_of_python import nccl_folder

    found = nccl_folder(python)
    return ":".join(filter(None, (found, os.environ.get("LD_LIBRARY_PATH")))) if found else ""


def _with_pods(cluster: "Cluster", folder: Path) -> "Sequence[Step]":
    """Write the manifests of the pods, and return the steps with them."""
    import json

    from webhook.programs.acceptance.pods import CASES, cluster_steps, manifest_of, pod_steps

    for case in CASES:
        path = folder / case.manifest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest_of(case, cluster), indent=2), encoding="utf-8")
    return [*cluster_steps(cluster), *(step for case in CASES for step in pod_steps(case, cluster, str(folder)))]


def _training_script() -> Path:
    from webhook.programs import acceptance as package

    return Path(package.__path__[0]) / "fsdp_step.py"


def _run(steps: "Sequence[Step]", folder: Path, console: "Console") -> "dict[str, Ran]":
    from webhook.programs.acceptance.run import run_step

    found = {}
    for number, step in enumerate(steps, 1):
        with console.status(f"{number} of {len(steps)}: {step.says} (up to {step.seconds:g} s)"):
            ran = found[step.name] = run_step(step, folder)
        end = f"exit code {ran.exit_code}" if ran.exit_code is not None else ran.problem
        console.print(f"{step.name}: {end}, {ran.seconds:.1f} s")
    return found


def _seen(ran: "dict[str, Ran]", folder: Path) -> "Seen":
    from webhook.programs.acceptance.archive import collected
    from webhook.programs.acceptance.judge import Seen

    return Seen(ran, collected(folder))


def _print_plan(planned: "Sequence[Step]", console: "Console") -> None:
    if not planned:
        complain("gpu-topology: the topology of this machine has no GPU, or cannot be read; nothing else can be tried")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("STEP", "WHAT IT IS FOR", "AT MOST", box=None, pad_edge=False)
    for step in planned:
        table.add_row(Text(step.name), Text(step.says), f"{step.seconds:g} s")
    console.print(table)


def _print_verdicts(judged: "Sequence[Verdict]", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    from webhook.programs.acceptance.model import Word

    styles = {Word.HOLDS: "green", Word.FAILS: "bold red", Word.NOT_TRIED: "yellow"}
    table = Table("VERDICT", "CLAIM", "WHAT WAS SEEN", box=None, pad_edge=False)
    for each in judged:
        table.add_row(Text(each.verdict, style=styles[each.verdict]), Text(each.says), Text(each.why))
    console.print(table)


def _pack(
    seen: "Seen",
    judged: "Sequence[Verdict]",
    cluster: "Cluster | None",
    output: Path | None,
    console: "Console",
    *,
    yes: bool,
) -> None:
    from webhook import __version__
    from webhook.programs.acceptance.machine import machine_of, names_of
    from webhook.programs.acceptance.redact import Redactor
    from webhook.programs.acceptance.result import RESULT, redacted, result

    now = datetime.now(UTC)
    path = output or Path(f"acceptance-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    redactor = Redactor(names_of(seen, socket.gethostname(), cluster))
    files = redacted(seen.files, redactor)
    files[RESULT] = result(
        version=__version__,
        at=now,
        machine=machine_of(seen),
        verdicts=judged,
        ran=list(seen.ran.values()),
        files=files,
        redactor=redactor,
    )
    _print_content(files, redactor.values, console)
    if yes or typer.confirm(f"Write {path}?", default=True):
        _write(path, files)
        console.print(f"{path} is written. Look into it before you give it to others.")


def _write(path: Path, files: "Mapping[str, bytes]") -> None:
    from webhook.programs.acceptance.archive import write_archive
    from webhook.words.errors import ConfigError

    try:
        write_archive(path, files)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Give another file with --output") from None


def _print_content(files: "Mapping[str, bytes]", values: int, console: "Console") -> None:
    console.print(f"The archive, in which {values} values have placeholders:")
    for name, content in sorted(files.items()):
        console.print(f"  {len(content):>9,} {name}")


def _exit_code(judged: "Sequence[Verdict]") -> int:
    from webhook.programs.acceptance.model import Word

    words = {each.verdict for each in judged}
    if Word.FAILS in words:
        return UNMET
    return 0 if Word.HOLDS in words else _UNTRIED
