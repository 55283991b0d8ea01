"""``gpu-topology certs``: manual control of the certificates that the webhook manages."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from webhook.cli.columns import WideOption
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, wanted_cluster
from webhook.cli.output import Output
from webhook.words import names

if TYPE_CHECKING:
    from certs.describe import Overview, Row
    from certs.objects import CertificateSpec
    from certs.rounds import Change
    from webhook.cluster.api.certificates import CertificateRequests

certs = typer.Typer(name="certs", no_args_is_help=True, help="Look at, make and renew the webhook's certificates.")

_T = TypeVar("_T")

ATTEMPTS = 5
ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Configuration file, for the names and lifetimes.")
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        metavar="NAMESPACE",
        envvar=names.AGENT_NAMESPACE,
        help="Namespace of the webhook; without, that of the Service in its MutatingWebhookConfiguration.",
    ),
]


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text or json.")]


@certs.command()
def init(
    config: ConfigOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: NamespaceOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Make the Secret if it is not there or not usable, and let the webhook configuration name its authority."""
    from certs import Conflict
    from certs.rounds import Pace, Replica
    from webhook.words.errors import GpuTopologyError

    async def install(cluster: "CertificateRequests", spec: "CertificateSpec") -> None:
        for _ in range(ATTEMPTS):
            replica = Replica(cluster, spec, Pace(), monotonic)
            try:
                changes = await replica.install()
            except Conflict:  # the webhook itself was faster
                continue
            _print_changes(changes, output)
            if replica.trust is None:
                typer.echo(
                    f"gpu-topology: there is no MutatingWebhookConfiguration {spec.configuration} yet; the webhook "
                    "writes its caBundle when there is one",
                    err=True,
                )
            return
        raise GpuTopologyError(f"Secret {spec.namespace}/{spec.secret}: others write it all the time. Try again")

    _in_cluster(install, config, (kubeconfig, context), namespace)


@certs.command()
def rotate(
    config: ConfigOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: NamespaceOption = "",
    authority: Annotated[bool, typer.Option("--authority", help="Replace the authority too, with an overlap.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Have the running webhook renew its certificate now."""
    from certs.objects import read_secret
    from certs.plan import AUTHORITY, SERVING
    from webhook.words.errors import GpuTopologyError

    async def ask_for_it(cluster: "CertificateRequests", spec: "CertificateSpec") -> None:
        if read_secret((await cluster.secret())[0], spec) is None:
            raise GpuTopologyError(
                f"there is no Secret {spec.namespace}/{spec.secret}. Make it: gpu-topology certs init"
            )
        await cluster.ask_for(AUTHORITY if authority else SERVING)

    _in_cluster(ask_for_it, config, (kubeconfig, context), namespace)
    wished = "authority" if authority else "certificate"
    if output is Output.JSON:
        typer.echo(json.dumps({"asked": wished}, indent=2))
    else:
        typer.echo(f"asked for a new {wished}: the leader of the replicas makes it")


def _print_changes(changes: "Sequence[Change]", output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps({"changes": [{"what": each.what, "why": each.why} for each in changes]}, indent=2))
        return
    from webhook.words.printable import printable

    for change in changes:
        typer.echo(printable(f"{change.what}: {change.why}"))
    if not changes:
        typer.echo("nothing to do")


@certs.command()
def show(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    config: ConfigOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: NamespaceOption = "",
    tls: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look at the files of this directory instead.")
    ] = None,
    output: OutputOption = Output.TEXT,
    wide: WideOption = False,
) -> None:
    """Show which certificates there are, until when, and what happens next. Exit code 1 if something is wrong."""
    from certs.describe import describe, describe_files
    from certs.keeper import read_bundle
    from certs.objects import read_registration, read_secret

    async def look(cluster: "CertificateRequests", spec: "CertificateSpec") -> "Overview":
        registration = read_registration(await cluster.configuration(), spec)
        secret, at = await cluster.secret()
        return describe(read_secret(secret, spec), registration, spec, at)

    if tls is not None:
        overview = describe_files(read_bundle(tls), datetime.now(UTC))
    else:
        overview = _in_cluster(look, config, (kubeconfig, context), namespace)
    _print(overview, output, wide=wide)


def _in_cluster(
    work: "Callable[[CertificateRequests, CertificateSpec], Awaitable[_T]]",
    config: Path | None,
    cluster: tuple[Path | None, str],
    namespace: str,
) -> "_T":
    """Call ``work`` with a connection to the API server and the specification of certificates; returns its result.

    Without ``namespace`` it is that of the Service that the registration of the webhook names.

    Raises:
        GpuTopologyError: the registration is needed, and is missing, cannot be read or names no namespace.
    """
    import asyncio

    from webhook.cli.inputs import read_settings
    from webhook.cluster.api.api_server import ApiServer
    from webhook.cluster.api.certificates import SECONDS, CertificateRequests
    from webhook.cluster.api.session import connect
    from webhook.objects.webhook_registration import namespace_of
    from webhook.programs.server.certificates import spec_of
    from webhook.words.errors import GpuTopologyError

    settings = read_settings(config)[0].certificates
    session = connect(wanted_cluster(*cluster), user_agent=names.WEBHOOK_USER_AGENT, seconds=SECONDS)

    async def where() -> str:
        what = f"MutatingWebhookConfiguration {settings.webhook_configuration}"
        found = await ApiServer(session).mutating_webhooks(settings.webhook_configuration)
        if found is None:
            raise GpuTopologyError(
                f"there is no {what}, which would name the namespace of the webhook. Give --namespace"
            )
        if not (named := namespace_of(found)):
            raise GpuTopologyError(f"{what} names no Service, and so no namespace. Give --namespace")
        return named

    async def run() -> "_T":
        try:
            spec = spec_of(settings, namespace or await where())
            return await work(CertificateRequests(session, spec), spec)
        finally:
            await session.close()

    return asyncio.run(run())


def _print(overview: "Overview", output: Output, *, wide: bool) -> None:
    """Print the overview, and end with exit code 1 if something is wrong."""
    if output is Output.JSON:
        typer.echo(json.dumps(_document(overview), indent=2))
    else:
        _print_table(overview, wide=wide)
    if overview.faults:
        raise typer.Exit(1)


def _document(overview: "Overview") -> dict[str, Any]:
    def dates(found: dict[str, Any]) -> dict[str, Any]:
        return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in found.items()}

    return {
        "certificates": [dates(asdict(each)) for each in overview.rows],
        "faults": list(overview.faults),
        "next": [dates(asdict(each)) for each in overview.events],
    }


def _print_table(overview: "Overview", *, wide: bool) -> None:
    """Print the dates of each certificate, below them where it is needed whose it is, and what comes next."""
    from rich.table import Table
    from rich.text import Text

    from webhook.cli.columns import print_parts, table_console
    from webhook.words.printable import printable

    console = table_console(wide=wide)
    table = Table(box=None, pad_edge=False)
    table.add_column("WHERE", overflow="fold")
    for heading in ("FROM", "TO", "DAYS", "SHA-256"):
        table.add_column(heading, no_wrap=True)
    for each in overview.rows:
        table.add_row(*map(Text, map(printable, _cells(each))))
    whose = [Text(printable(f"{each.place}: {_whose(each)}")) for each in overview.rows]
    print_parts(console, [table, Text(), *whose] if overview.rows else [])
    names_of_server: Sequence[str] = next((each.names for each in overview.rows if each.names), ())
    if names_of_server:
        print_parts(console, [Text(printable(f"names: {', '.join(names_of_server)}"))])
    for event in overview.events:
        print_parts(console, [Text(f"next: {event.when:%Y-%m-%d %H:%M} {printable(event.what)}")])
    for fault in overview.faults:
        complain(f"gpu-topology: {fault}")


def _cells(row: "Row") -> tuple[str, ...]:
    dates = f"{row.begins:%Y-%m-%d}", f"{row.ends:%Y-%m-%d}"
    return row.place, *dates, f"{row.days_left:.0f}", row.fingerprint[:16]


def _whose(row: "Row") -> str:
    return f"{row.subject}, {'self-signed' if row.issuer == row.subject else f'issued by {row.issuer}'}"
