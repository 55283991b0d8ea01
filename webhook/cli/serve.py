"""``gpu-topology serve``: the webhook."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.words import names

if TYPE_CHECKING:
    from webhook.cluster.state import Claims, Pods, State
    from webhook.decisions.configuration import AdmitPolicy, Config
    from webhook.programs.log import Log
    from webhook.programs.server.certificates import Certificates
    from webhook.programs.server.events import Events
    from webhook.programs.server.run import Background
    from webhook.programs.server.vitals import Vitals

KUBERNETES = Path("kubernetes")


def serve(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="kubernetes|DIR",
            help="What is known of the cluster (required): from the cluster itself, or from a directory with "
            "namespaces/*.yaml, cluster.yaml, nodes/*.json, pods/*.yaml, claims/*.yaml.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --state kubernetes: the cluster, if not the one in which this runs as a pod. With a directory: "
            "read pods and claims from there, and write Events.",
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            envvar=names.AGENT_NAMESPACE,
            help="Namespace of the webhook: of its certificates and, unless configured, of what agents publish.",
        ),
    ] = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file.")] = None,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory with tls.crt and tls.key, which another program renews. Without this and --self-signed the "
            "certificates are kept in a Secret of the cluster.",
        ),
    ] = None,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="Issue a certificate for localhost, for a first try.")
    ] = False,
    ca_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where --self-signed writes its CA certificate.")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="HTTPS port.")] = None,
    ops_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Plain port of health, readiness and metrics.")
    ] = None,
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
    if tls is not None and self_signed:
        raise typer.BadParameter("give either --tls DIR or --self-signed", param_hint="--tls")

    from webhook.programs.log import take_over_logging
    from webhook.programs.server.app import create_app
    from webhook.programs.server.counts import Counts
    from webhook.programs.server.log import ReviewLog
    from webhook.programs.server.run import run

    log = ReviewLog(sys.stdout.fileno())
    take_over_logging(log)
    certificates = _certificates(settings, tls, ca_file, kubeconfig, namespace, log, self_signed=self_signed)
    if state == KUBERNETES:
        cluster = _live(kubeconfig, settings.cluster.topology_namespace or namespace, namespace, policy, log)
    else:
        cluster = _directory(state, kubeconfig, policy)
    counts = Counts(lambda: cluster.events.lost)
    reviews = create_app(settings, policy, cluster.state, log, counts, cluster.pods, cluster.events, cluster.claims)
    run(
        settings,
        reviews,
        cluster.state,
        certificates.context,
        log=log,
        counts=counts,
        vitals=lambda: certificates.add_to(cluster.vitals()),
        background=(*cluster.background, *certificates.background),
    )


class _Cluster(NamedTuple):
    """The server's access to the cluster."""

    state: "State"
    pods: "Pods"
    claims: "Claims"
    events: "Events"
    background: "tuple[Background, ...]"
    """The parts to open and close."""
    vitals: "Callable[[], Vitals]"


def _live(kubeconfig: Path | None, namespace: str, own_namespace: str, policy: "AdmitPolicy", log: "Log") -> _Cluster:
    """Access the cluster itself; agents publish in ``namespace``."""
    from webhook.programs.server.cluster_access import LiveCluster

    live = LiveCluster(kubeconfig, seconds=policy.binding.read_seconds)
    caches = live.caches(namespace, own_namespace, policy, log)
    gates = live.gates(caches, own_namespace, policy, log)
    return _Cluster(
        caches.state,
        live.pods,
        live.claims(caches.state.pools),
        live,
        (live, caches, gates),
        vitals=lambda: gates.add_to(caches.vitals()),
    )


def _directory(state: Path, kubeconfig: Path | None, policy: "AdmitPolicy") -> _Cluster:
    """Access a state directory; pods and Events may be those of a cluster."""
    from webhook.cluster.files.state import DirectoryState
    from webhook.programs.server.vitals import Vitals

    directory = DirectoryState(state, policy.claims)
    _ = directory.nodes, directory.pools()  # an unreadable file ends the start, and not the first review of a Binding
    if kubeconfig is None:
        from webhook.programs.server.events import NoEvents

        return _Cluster(directory, directory, directory, NoEvents(), (), Vitals)
    from webhook.programs.server.cluster_access import LiveCluster

    live = LiveCluster(kubeconfig, seconds=policy.binding.read_seconds)
    return _Cluster(directory, live.pods, live.claims(directory.pools), live, (live,), Vitals)


def _overlay(config: "Config", host: str | None, port: int | None, ops_port: int | None) -> "Config":
    """Put the options of the command line over the configuration."""
    from msgspec import to_builtins
    from msgspec.structs import replace

    from webhook.decisions.configuration import parse_config

    given = {"host": host, "port": port, "ops_port": ops_port}
    overlaid = replace(config, server=replace(config.server, **{k: v for k, v in given.items() if v is not None}))
    return parse_config(to_builtins(overlaid))


def _certificates(  # noqa: PLR0913 - most of them options of the command
    config: "Config",
    tls: Path | None,
    ca_file: Path | None,
    kubeconfig: Path | None,
    namespace: str,
    log: "Log",
    *,
    self_signed: bool,
) -> "Certificates":
    """Return the certificates of the server."""
    from webhook.programs.server import certificates

    if tls is not None:
        return certificates.from_files(config, tls, log)
    if self_signed:
        return certificates.self_signed(config, ca_file, log)
    if not namespace:
        expected = f"expected a name, or the variable {names.AGENT_NAMESPACE}; or else --tls DIR or --self-signed"
        raise typer.BadParameter(expected, param_hint="--namespace")
    return certificates.managed(config, kubeconfig=kubeconfig, namespace=namespace, log=log)
