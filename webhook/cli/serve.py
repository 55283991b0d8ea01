"""``gpu-topology serve``: the webhook."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certs.bundle import TlsBundle
    from webhook.config import Config
    from webhook.server.events import Events
    from webhook.server.run import Background
    from webhook.state import Pods

SELF_SIGNED_LIFETIME = timedelta(days=30)
SELF_SIGNED_NAMES = ("localhost", "127.0.0.1", "::1")


def serve(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    state: Annotated[
        Path | None,
        typer.Option(help="State directory (required): namespaces/*.yaml, cluster.yaml, nodes/*.json, pods/*.yaml."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Read pods from this API server, and write Events there, instead of pods/*.yaml."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file.")] = None,
    tls: Annotated[Path | None, typer.Option(help="Directory with tls.crt and tls.key; this or --self-signed.")] = None,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="Issue a certificate for localhost, for a first try.")
    ] = False,
    ca_file: Annotated[Path | None, typer.Option(help="Where --self-signed writes its CA certificate.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="HTTPS port.")] = None,
    ops_port: Annotated[int | None, typer.Option(help="Plain port of health, readiness and metrics.")] = None,
    check_config: Annotated[bool, typer.Option("--check-config", help="Check the configuration and stop.")] = False,
) -> None:
    """Answer admission reviews over HTTPS."""
    from webhook.cli.inputs import read_settings

    settings, policy = read_settings(config)
    settings = _overlay(settings, host, port, ops_port)
    if ca_file is not None and not self_signed:
        raise typer.BadParameter("only --self-signed issues a CA certificate", param_hint="--ca-file")
    if check_config:
        typer.echo(f"{config or 'built-in defaults'}: ok")
        return
    if state is None:
        raise typer.BadParameter(
            "name a state directory; the cluster's own state is not implemented yet", param_hint="--state"
        )
    if (tls is None) != self_signed:
        raise typer.BadParameter("give either --tls DIR or --self-signed", param_hint="--tls")

    from certs.context import server_context
    from webhook.server.app import create_app
    from webhook.server.log import ReviewLog
    from webhook.server.run import run
    from webhook.state.directory import load_directory

    bundle = _bundle(tls, ca_file)
    directory = load_directory(state)
    directory.check_nodes()
    pods, events, background = _cluster(state, kubeconfig, settings)
    reviews = create_app(settings, policy, directory, ReviewLog(sys.stdout.fileno()), pods, events)
    context = server_context(bundle)
    run(settings, reviews, directory, context, lambda: _announce(settings), background=background)


def _cluster(state: Path, kubeconfig: Path | None, config: "Config") -> "tuple[Pods, Events, tuple[Background, ...]]":
    """Where pods are read and Events go, and what has to be closed in the end."""
    if kubeconfig is None:
        from webhook.server.events import NoEvents
        from webhook.state.pods import DirectoryPods

        return DirectoryPods(state), NoEvents(), ()
    from webhook.server.live import LiveCluster

    live = LiveCluster(kubeconfig, seconds=config.binding.read_seconds)
    return live.pods, live, (live,)


def _overlay(config: "Config", host: str | None, port: int | None, ops_port: int | None) -> "Config":
    """The configuration with the options of the command line over it."""
    from msgspec.structs import replace

    from webhook.config import check_config

    given = {"host": host, "port": port, "ops_port": ops_port}
    overlaid = replace(config, server=replace(config.server, **{k: v for k, v in given.items() if v is not None}))
    check_config(overlaid)
    return overlaid


def _bundle(tls: Path | None, ca_file: Path | None) -> "TlsBundle":
    from certs.bundle import check_bundle, read_bundle
    from certs.issue import issue
    from webhook.model.errors import GpuTopologyError

    now = datetime.now(UTC)
    if tls is not None:
        bundle = read_bundle(tls)
        check_bundle(bundle, now=now)
        return bundle
    bundle = issue(SELF_SIGNED_NAMES, now=now, lifetime=SELF_SIGNED_LIFETIME)
    if ca_file is not None:
        try:
            ca_file.write_bytes(bundle.authority)
        except OSError as error:
            raise GpuTopologyError(f"--ca-file {ca_file}: cannot be written: {error.strerror}") from None
    return bundle


def _announce(config: "Config") -> None:
    server = config.server
    typer.echo(
        f"gpu-topology: reviews on https://{server.host}:{server.port}, probes on http://{server.host}:{server.ops_port}",
        err=True,
    )
