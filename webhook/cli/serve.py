"""``gpu-topology serve``: the webhook."""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.model import names

if TYPE_CHECKING:
    from certs.bundle import TlsBundle
    from webhook.config import AdmitPolicy, Config
    from webhook.log import Log
    from webhook.server.events import Events
    from webhook.server.run import Background
    from webhook.server.vitals import Vitals
    from webhook.state import Pods, State

KUBERNETES = Path("kubernetes")
SELF_SIGNED_LIFETIME = timedelta(days=30)
SELF_SIGNED_NAMES = ("localhost", "127.0.0.1", "::1")


def serve(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="kubernetes|DIR",
            help="What is known of the cluster (required): from the cluster itself, or from a directory with "
            "namespaces/*.yaml, cluster.yaml, nodes/*.json, pods/*.yaml.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="With --state kubernetes: the cluster, if not the one in which this runs as a pod. With a directory: "
            "read pods from there, and write Events, instead of pods/*.yaml."
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(envvar=names.AGENT_NAMESPACE, help="With --state kubernetes: where the agents publish."),
    ] = "",
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
        raise typer.BadParameter("expected kubernetes, or a state directory", param_hint="--state")
    if state == KUBERNETES and not namespace:
        raise typer.BadParameter(f"expected a name, or the variable {names.AGENT_NAMESPACE}", param_hint="--namespace")
    if (tls is None) != self_signed:
        raise typer.BadParameter("give either --tls DIR or --self-signed", param_hint="--tls")

    from certs.context import server_context
    from webhook.log import take_over_logging
    from webhook.server.app import create_app
    from webhook.server.log import ReviewLog
    from webhook.server.run import run

    log = ReviewLog(sys.stdout.fileno())
    take_over_logging(log)
    bundle = _bundle(tls, ca_file)
    if state == KUBERNETES:
        cluster = _live(kubeconfig, namespace, policy, log)
    else:
        cluster = _directory(state, kubeconfig, policy)
    reviews = create_app(settings, policy, cluster.state, log, cluster.pods, cluster.events)
    context = server_context(bundle)
    certificate, authority = _ends(bundle)
    run(
        settings,
        reviews,
        cluster.state,
        context,
        vitals=lambda: replace(cluster.vitals(), certificate_ends=certificate, authority_ends=authority),
        background=cluster.background,
    )


class _Cluster(NamedTuple):
    """What the server knows the cluster by."""

    state: "State"
    pods: "Pods"
    events: "Events"
    background: "tuple[Background, ...]"
    """What has to be opened and closed."""
    vitals: "Callable[[], Vitals]"


def _live(kubeconfig: Path | None, namespace: str, policy: "AdmitPolicy", log: "Log") -> _Cluster:
    """The cluster itself."""
    from webhook.server.live import LiveCluster

    live = LiveCluster(kubeconfig, seconds=policy.binding.read_seconds)
    max_age = policy.binding.topology_max_age_seconds
    caches = live.caches(namespace, configured=policy.versions, max_age=max_age, log=log)
    return _Cluster(caches.state, live.pods, live, (live, caches), caches.vitals)


def _directory(state: Path, kubeconfig: Path | None, policy: "AdmitPolicy") -> _Cluster:
    """A state directory; pods and Events may be those of a cluster."""
    from webhook.server.vitals import Vitals
    from webhook.state.directory import load_directory

    directory = load_directory(state)
    directory.check_nodes()
    if kubeconfig is None:
        from webhook.server.events import NoEvents
        from webhook.state.pods import DirectoryPods

        return _Cluster(directory, DirectoryPods(state), NoEvents(), (), Vitals)
    from webhook.server.live import LiveCluster

    live = LiveCluster(kubeconfig, seconds=policy.binding.read_seconds)
    return _Cluster(directory, live.pods, live, (live,), Vitals)


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


def _ends(bundle: "TlsBundle") -> tuple[float, float | None]:
    """When the certificate and its authority end, in seconds since 1970."""
    from certs.bundle import ends

    certificate, authority = ends(bundle)
    return certificate.timestamp(), authority.timestamp() if authority else None
