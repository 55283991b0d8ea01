"""``gpu-topology place``: the planner, and the release of pods from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.columns import WideOption
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, wanted_cluster
from webhook.cli.output import Output
from webhook.words import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.programs.planner.release import Released


place = typer.Typer(
    name="place", invoke_without_command=True, help="Choose the cards of waiting pods before HAMi does."
)


@place.callback()
def plan(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The cluster, if not the one in which this runs as a pod.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", envvar=names.AGENT_NAMESPACE, help="Namespace of the planner's Lease.")
    ] = "",
    topology_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="Where the agents publish, if neither the configuration says it nor it is the same.",
        ),
    ] = "",
    pod_name: Annotated[
        str, typer.Option(metavar="NAME", envvar=names.WEBHOOK_POD_NAME, help="Name of this replica, for the Lease.")
    ] = "",
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of metrics and probes.")] = "0.0.0.0",  # noqa: S104 - scraped over the pod network
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Plain port of metrics and probes.")
    ] = 8080,
    extender_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="HTTPS port of the scheduler extender; without it there is none."
        ),
    ] = None,
    extender_tls: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Certificate of the extender: tls.crt and tls.key.")
    ] = None,
    extender_client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authority of the certificates that schedulers show it.")
    ] = None,
) -> None:
    """Choose the cards of waiting pods, while this replica holds the Lease."""
    if context.invoked_subcommand is not None:
        return
    if not namespace:
        raise typer.BadParameter(f"expected a name, or the variable {names.AGENT_NAMESPACE}", param_hint="--namespace")
    extender = (extender_port, extender_tls, extender_client_ca)
    if None in extender and extender != (None, None, None):
        raise typer.BadParameter(
            "expected --extender-port, --extender-tls and --extender-client-ca together", param_hint="--extender-port"
        )
    from functools import partial

    from webhook.cli.inputs import read_settings
    from webhook.programs.planner.decisions import PlaceDecisions
    from webhook.programs.planner.run import MakeCompanion, PlannerSettings, run

    settings, policy = read_settings(config)
    planner = PlannerSettings(
        namespace=namespace,
        topology_namespace=topology_namespace or settings.cluster.topology_namespace or namespace,
        max_age=policy.binding.topology_max_age_seconds,
        pod_name=pod_name,
        kubeconfig=kubeconfig,
        host=host,
        port=port,
        counts=tuple(each.count for each in policy.resources if each.family == "hami"),
        expects_nvlink=policy.defaults.expect_nvlink,
    )
    companion: MakeCompanion | None = None
    if extender_port is not None and extender_tls and extender_client_ca:
        from webhook.programs.planner.extender.run import Extender, ExtenderSettings

        companion = partial(
            Extender,
            ExtenderSettings(host=host, port=extender_port, tls=extender_tls, client_authority=extender_client_ca),
            policy,
        )
    run(planner, partial(PlaceDecisions, policy), companion)


@place.command()
def release(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    everything: Annotated[
        bool, typer.Option("--all", help="All pods; required, so that nobody does it by mistake.")
    ] = False,
    namespace: Annotated[str, typer.Option(metavar="NAMESPACE", help="Only the pods of this namespace.")] = "",
    planner_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            envvar=names.AGENT_NAMESPACE,
            help="Where the planner runs: it is paused for five minutes, and new pods do not wait.",
        ),
    ] = "",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
    wide: WideOption = False,
) -> None:
    """Open the gate of every waiting pod, and remove the planner's pins from pods without a node.

    Exit code 1 if a pod could not be released.
    """
    if not everything:
        raise typer.BadParameter(
            "expected --all: every pod that waits goes to the scheduler as it is", param_hint="--all"
        )
    import asyncio
    import socket

    from webhook.cluster.api.api_server import SECONDS
    from webhook.cluster.api.session import connect
    from webhook.cluster.api.verbs import Api
    from webhook.programs.planner.leadership import WRITES_SECONDS
    from webhook.programs.planner.pause import pause
    from webhook.programs.planner.release import Release, merged

    session = connect(wanted_cluster(kubeconfig, context), user_agent=names.PLANNER_USER_AGENT, seconds=SECONDS)

    async def release_all() -> "list[Released]":
        try:
            api = Api(session, field_manager=names.PLANNER_FIELD_MANAGER)
            work = Release(api, instance=socket.gethostname())
            if not planner_namespace or namespace:
                return await work.all(namespace)
            is_paused = await pause(api, planner_namespace)
            found = await work.all()
            if is_paused:  # until the pause the leading planner may have pinned more
                await asyncio.sleep(WRITES_SECONDS)
                found = merged(found, await work.all())
            return found
        finally:
            await session.close()

    _print(asyncio.run(release_all()), output, wide=wide)


def _print(found: "Sequence[Released]", output: Output, *, wide: bool) -> None:
    """Print the results, and end with exit code 1 if a pod was not released."""
    if output is Output.JSON:
        typer.echo(_as_json(found))
    elif found:
        _print_table(found, wide=wide)
    else:
        typer.echo("no pod waits for its cards or is pinned to some")
    failed = [one for one in found if one.problem]
    for one in failed:
        complain(f"gpu-topology: pod {one.namespace}/{one.name}: {one.problem}")
    if failed:
        raise typer.Exit(1)


def _as_json(found: "Sequence[Released]") -> str:
    import json

    pods = [
        {"namespace": one.namespace, "name": one.name, "done": "" if one.problem else one.step, "problem": one.problem}
        for one in found
    ]
    return json.dumps({"pods": pods}, indent=2)


def _print_table(found: "Sequence[Released]", *, wide: bool) -> None:
    from rich.table import Table

    from webhook.cli.columns import print_parts, table_console
    from webhook.words.printable import printable

    table = Table(box=None, pad_edge=False)
    for heading in ("NAMESPACE", "POD", "DONE"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(printable(one.namespace), printable(one.name), "no" if one.problem else one.step)
    print_parts(table_console(wide=wide), [table])
