"""``gpu-topology defrag``: running pods that would give linked cards back if they were created anew elsewhere."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from webhook.cli.columns import WideOption
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, refuse_cluster, wanted_cluster
from webhook.cli.output import Output
from webhook.cli.scope_options import StateOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.defrag.reading import Seen
    from webhook.cluster.api.contexts import Where
    from webhook.decisions.defrag.movable import Limits
    from webhook.decisions.defrag.plan import DefragPlan, Move

_EVICTIONS, _AGE_MINUTES, _WAIT_SECONDS = 5, 10, 300


def defrag(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    evictions: Annotated[
        int, typer.Option(metavar="COUNT", min=1, max=1000, help="At most so many pods.")
    ] = _EVICTIONS,
    max_priority: Annotated[int, typer.Option(metavar="PRIORITY", help="Only pods of at most this priority.")] = 0,
    min_age: Annotated[
        int, typer.Option(metavar="MINUTES", min=0, help="Only pods that are at least so old.")
    ] = _AGE_MINUTES,
    apply: Annotated[bool, typer.Option("--apply", help="Evict the pods one by one, after a question.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply, without the question.")] = False,
    wait: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="With --apply, how long a new pod may take to get its cards.")
    ] = _WAIT_SECONDS,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
    wide: WideOption = False,
) -> None:
    """Plan moves of running pods that give pairs, fours and eights of linked cards back.

    Nothing is changed without --apply. It evicts one pod after the other within PodDisruptionBudgets, and stops with
    exit code 1 when the plan no longer holds.
    """
    from webhook.cli.defrag.printing import print_json, print_text
    from webhook.cli.defrag.reading import see_cluster, see_state
    from webhook.decisions.defrag.movable import Limits

    limits = Limits(evictions=evictions, priority=max_priority, age=timedelta(minutes=min_age))
    if state is not None:
        refuse_cluster(kubeconfig, context, "give either a state directory or a cluster")
        if apply:
            raise typer.BadParameter("files are not changed: it needs a cluster", param_hint="--apply")
    if apply and output is Output.JSON:
        raise typer.BadParameter("expected text with --apply", param_hint="--output")
    where = None if state is not None else wanted_cluster(kubeconfig, context)
    seen = see_cluster(where, config) if state is None else see_state(state, config)
    plan = seen.defragmenter(limits).plan(seen.pods)
    if output is Output.JSON:
        print_json(plan)
    else:
        print_text(plan, wide=wide)
    if state is not None:
        complain("gpu-topology: a state directory has no PodDisruptionBudgets; the plan takes none into account")
    if apply and plan.moves:
        _apply(where, config, limits, plan, asks=not yes, wait=wait)


def _apply(where: "Where", config: Path | None, limits: "Limits", plan: "DefragPlan", *, asks: bool, wait: int) -> None:
    """Carry out the moves of a plan as long as each is still the best one.

    Raises:
        Exit: a move was refused, or the plan no longer holds.
    """
    from webhook.cli.defrag.following import move_pod
    from webhook.cli.defrag.reading import see_cluster
    from webhook.words.errors import GpuTopologyError
    from webhook.words.printable import printable

    if asks:
        typer.confirm(f"Evict {len(plan.moves)} pods?", abort=True, err=True)
    for number, move in enumerate(plan.moves, start=1):
        problem = _problem(plan.moves[number - 1 :], see_cluster(where, config), limits)
        if problem:
            _stop(number, plan, problem)
        try:
            found = move_pod(where, move, wait)
        except GpuTopologyError as error:
            _stop(number, plan, str(error))
        if found is None:
            _stop(number, plan, f"{move.pod.controller} has no new pod with cards after {wait} s")
        typer.echo(printable(f"{number}. {move.pod.record.key} -> {found.key} on {found.node}"))
        if not found.is_as_planned(move):
            _stop(number + 1, plan, f"pod {found.key} got other cards than planned")


def _problem(left: "Sequence[Move]", seen: "Seen", limits: "Limits") -> str:
    """Return why the moves that are left do not hold any more; empty if they do."""
    from webhook.cli.defrag.printing import NAMED
    from webhook.words.listing import listed

    defragmenter = seen.defragmenter(limits)
    if defragmenter.waiting:
        return f"pods wait for cards, and may take what a move frees: {listed(defragmenter.waiting, NAMED)}"
    if not defragmenter.holds(left, seen.pods):
        return "the cluster has changed, and the moves that are left would come out otherwise"
    return ""


def _stop(number: int, plan: "DefragPlan", why: str) -> NoReturn:
    from webhook.words.printable import printable

    left = len(plan.moves) - number + 1
    complain(printable(f"gpu-topology: stopped with {left} of {len(plan.moves)} moves left: {why}"))
    raise typer.Exit(1)
