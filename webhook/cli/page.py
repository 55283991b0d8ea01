"""``gpu-topology page``: the cluster at a glance, in the browser."""

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import (
    ContextOption,
    KubeconfigOption,
    namespace_of_context,
    refuse_cluster,
    wanted_cluster,
)
from webhook.cli.scope_options import (
    FILE_OPTION,
    RECURSIVE_OPTION,
    AllNamespacesOption,
    NamespaceOption,
    StateOption,
    refuse_both,
)

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.snapshot.documents import ReadSnapshot


class Format(enum.StrEnum):
    """The form of the page."""

    LIVE = "live"
    HTML = "html"


class _Watched(NamedTuple):
    """The cluster, and the namespace of the pods."""

    cluster: "Context | None"
    namespace: str | None
    """The namespace; None for all."""


def page(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="live: serve the page; html: write it as one file.")
    ] = Format.LIVE,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Of 127.0.0.1; 0: any free one.")] = 0,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
) -> None:
    """Show the nodes, GPUs, links and pods of a cluster in the browser, live; or write them as one HTML file.

    The page is for this machine and for whoever has its address. It reads the cluster with your kubeconfig and your
    rights, and changes nothing.
    """
    refuse_both(namespace, everywhere=all_namespaces)
    in_files = file is not None or state is not None
    if in_files:
        refuse_cluster(kubeconfig, context, "give either files or a cluster")
    if output is Format.LIVE:
        if in_files:
            raise typer.BadParameter("files do not change: give -o html", param_hint="--output")
        _serve(_watched(kubeconfig, context, namespace, everywhere=all_namespaces), config, port)
        return
    if sys.stdout.isatty():
        raise typer.BadParameter("the page is a file: write -o html > cluster.html", param_hint="--output")
    if in_files:
        from webhook.cli.snapshots import from_files
        from webhook.cluster.files.manifests import read_files

        read = from_files(read_files(file or [], recursive=recursive), state, namespace, config)
    else:
        from webhook.cli.snapshots import from_cluster

        cluster, namespace = _watched(kubeconfig, context, namespace, everywhere=all_namespaces)
        read = from_cluster(cluster, namespace, config)
    typer.echo(_as_file(read, namespace))


def _watched(kubeconfig: Path | None, context: str, namespace: str | None, *, everywhere: bool) -> _Watched:
    cluster = wanted_cluster(kubeconfig, context)
    return _Watched(cluster, None if everywhere else namespace or namespace_of_context(cluster))


def _as_file(read: "ReadSnapshot", namespace: str | None) -> str:
    from webhook.insight.analyze.analyzers import analyze
    from webhook.insight.overview.picture import overview
    from webhook.insight.page.markup import Known, whole

    found = overview(read.snapshot, analyze(read.snapshot, namespace=namespace), are_all_pods=namespace is None)
    return whole(Known(read.snapshot, found))


def _serve(where: _Watched, config: Path | None, port: int) -> None:
    import asyncio
    from contextlib import suppress

    with suppress(KeyboardInterrupt):  # uvicorn raises it again after its end
        asyncio.run(_run(where, config, port))


async def _run(where: _Watched, config: Path | None, port: int) -> None:

    from webhook.cli.snapshots import cluster_setting
    from webhook.cluster.api.session import connect
    from webhook.cluster.snapshot.watch import SECONDS, FollowedCluster
    from webhook.insight.page.following import Newest, follow
    from webhook.insight.page.server import find_place, serve
    from webhook.words import names

    setting, certificates = cluster_setting(config)
    session = connect(where.cluster, user_agent=names.PAGE_USER_AGENT, seconds=SECONDS)
    try:
        place = find_place(port)
        cluster = FollowedCluster(session, where.namespace, setting, certificates, _tell)
        newest = Newest()

        async def following() -> None:
            await cluster.settled()
            typer.echo(f"{place.url}\nThe page follows the cluster until Ctrl-C. Its address is for you alone.")
            await follow(cluster, newest, where.namespace)

        await serve(place, newest, [*cluster.work(), following()])
    finally:
        await session.close()


def _tell(text: str) -> None:
    complain(f"gpu-topology: {text}")
