"""``gpu-topology namespace``: what a namespace has opted into, and the lines that change it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli.candidates import namespaces
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, refuse_cluster, wanted_cluster
from webhook.cli.scope_options import StateOption
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.listing import counted, listed
from webhook.words.object_names import NAMESPACE
from webhook.words.printable import fitted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webhook.cluster.api.contexts import Context
    from webhook.cluster.snapshot.model import Snapshot
    from webhook.insight.namespace.plan import Change
    from webhook.insight.namespace.workloads import Group, Workload
    from webhook.objects.pod import Namespace

_LISTED = 8
"""The workloads of a group that are named."""


class _Known(NamedTuple):
    """A namespace, and what is known of its workloads."""

    namespace: "Namespace"
    workloads: "list[Workload]"
    snapshot: "Snapshot"
    version: "Mapping[str, str]"
    """The ``uid`` and ``resourceVersion`` of a namespace at an API server."""


def namespace(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=namespaces, help="The namespace.")],
    opt_in: Annotated[bool, typer.Option("--opt-in", help="Opt in; every other change does too.")] = False,
    observe: Annotated[bool, typer.Option("--observe", help="Only watch its pods: --set profile=observe.")] = False,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Option, such as profile=node-peers or env.NAME=VALUE, or permission; may be given again.",
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Option or label to remove, such as profile or injection."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove every label and annotation of ours.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write it after a question, and print the way back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply, without the question.")] = False,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
) -> None:
    """Tell what a namespace has opted into, and what its pods would get; with options, print how to change it.

    Nothing is changed without --apply. The output is a script: its kubectl lines can be run, the rest is comments.
    """
    from webhook.cli.workload.versions import unknown_versions
    from webhook.insight.namespace.plan import changed, changes, without_ours
    from webhook.insight.namespace.workloads import groups

    if not NAMESPACE.fullmatch(name):
        raise typer.BadParameter(f"expected the name of a namespace, such as team-a, found {name!r}", param_hint="NAME")
    values = _values([*(given or []), *([f"profile={Profile.OBSERVE}"] if observe else [])])
    removed = {key.removeprefix(names.PREFIX) for key in unset or []}
    is_change = bool(opt_in or values or removed)
    _check(values, removed, is_change=is_change, undo=undo, apply=apply, state=state)
    if state is not None:
        refuse_cluster(kubeconfig, context, "give either a state directory or a cluster")
    cluster = wanted_cluster(kubeconfig, context) if state is None else None
    known = _live(name, cluster, config) if state is None else _in_files(name, state, config)
    now, snapshot = known.namespace, known.snapshot
    then = without_ours(now) if undo else changed(now, values, removed, snapshot.policy.defaults) if is_change else now
    of_kubectl = (
        *(("--kubeconfig", str(kubeconfig)) if kubeconfig else ()),
        *(("--context", context) if context else ()),
    )
    found = groups(known.workloads, now, then, snapshot)
    if found and (unknown := unknown_versions(snapshot.facts.overruled_by(snapshot.policy.versions))):
        complain(f"note: version of {listed(unknown)}: not known here, so some pods may be treated differently")
    made = changes(now, then)
    text = "\n\n".join(
        "\n".join(part)
        for part in (
            [*_opted_in(now, snapshot)],
            [*_script(now, made, of_kubectl)] if is_change or undo else [],
            [*_workloads(found, now, is_change=is_change, is_changed=bool(made))],
        )
        if part
    )
    typer.echo(text, err=apply)
    if apply and made:
        _apply(cluster, known.version, made, name, asks=not yes)
        _print_way_back(then, now, of_kubectl)


def _values(given: list[str]) -> dict[str, str]:
    """Return the values to set, by the names of options and labels without the prefix.

    Raises:
        BadParameter: there is no such option or value, or two values of one name.
    """
    from webhook.insight.namespace.plan import check_value
    from webhook.words.errors import FormatError

    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        key = key.removeprefix(names.PREFIX)
        if not equals or not key:
            raise typer.BadParameter(f"expected KEY=VALUE, found {each!r}", param_hint="--set")
        try:
            check_value(key, value, source=key)
        except FormatError as error:
            raise typer.BadParameter(str(error), param_hint="--set") from None
        if found.setdefault(key, value) != value:
            raise typer.BadParameter(f"{key} has two values: give one", param_hint="--set")
    return found


def _check(
    values: dict[str, str], removed: set[str], *, is_change: bool, undo: bool, apply: bool, state: Path | None
) -> None:
    """Raises BadParameter if options contradict each other, or if there is nothing to write, or nowhere."""
    for key in values.keys() & removed:
        raise typer.BadParameter(f"{key} is to be set and removed: give one of the two", param_hint="--unset")
    if is_change and undo:
        raise typer.BadParameter("it goes with no change: --apply prints the way back by itself", param_hint="--undo")
    if apply and state is not None:
        raise typer.BadParameter("files are not changed: it needs a cluster", param_hint="--apply")
    if apply and not (is_change or undo):
        raise typer.BadParameter("give a change, or --undo", param_hint="--apply")


def _live(name: str, cluster: "Context | None", config: Path | None) -> _Known:
    from webhook.cli.snapshots import from_cluster
    from webhook.cluster.snapshot.namespace_workloads import read_workloads
    from webhook.cluster.snapshot.template_pods import template_pods
    from webhook.insight.namespace.workloads import of_pods, of_templates

    read = read_workloads(cluster, name)
    for problem in read.problems:
        complain(f"gpu-topology: {problem}: workloads of this kind are known from their pods alone")
    snapshot = from_cluster(cluster, name, config).snapshot
    workloads = [*of_templates(template_pods(read.templates)), *of_pods(snapshot.pods, name, read.made)]
    return _Known(read.namespace, workloads, snapshot, read.version)


def _in_files(name: str, state: Path, config: Path | None) -> _Known:
    from webhook.cli.snapshots import from_files
    from webhook.insight.namespace.workloads import of_pods
    from webhook.objects.pod import Namespace

    snapshot = from_files((), state, None, config).snapshot
    there = snapshot.namespaces.get(name)
    if there is None:
        complain(f"note: namespace {name} is not in these files: it counts as new, without labels and annotations")
    return _Known(there or Namespace(name), list(of_pods(snapshot.pods, name, ())), snapshot, {})


def _apply(
    cluster: "Context | None", version: "Mapping[str, str]", made: "Sequence[Change]", name: str, *, asks: bool
) -> None:
    """Write the changes after a question, which is on standard error, so that standard output stays a script.

    Raises:
        GpuTopologyError: nothing was written.
        Exit: the answer to the question is no, or there is none.
    """
    from webhook.cluster.api.namespace_change import change_namespace
    from webhook.insight.namespace.plan import Field

    if asks:
        typer.echo(f"Write this to namespace {name}? [y/N]: ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            complain("gpu-topology: nothing was written")
            raise typer.Exit(1)
    labels, annotations = (
        {change.key: change.after for change in made if change.field is field}
        for field in (Field.LABEL, Field.ANNOTATION)
    )
    change_namespace(cluster, name, version, labels, annotations)


def _print_way_back(then: "Namespace", now: "Namespace", cluster: "Sequence[str]") -> None:
    from webhook.insight.namespace.plan import changes, commands

    typer.echo(f"# Namespace {now.name} is changed. The way back:")
    for command in commands(now.name, changes(then, now), cluster):
        typer.echo(command)


def _comment(text: str) -> str:
    return f"# {printable(text)}"


def _opted_in(now: "Namespace", snapshot: "Snapshot") -> Iterator[str]:
    """Yield the labels and annotations with what they do, and what ``analyze`` finds about them."""
    from webhook.insight.analyze.namespaces import namespaces as findings
    from webhook.insight.namespace.plan import meaning, settings

    said = "has opted in" if now.injection_enabled else "has not opted in: its pods are left as they are"
    yield _comment(f"Namespace {now.name} {said}.")
    for key, value in settings(now):
        yield _comment(f"  {': '.join(filter(None, (f'{key}={fitted(value)}', meaning(key, value))))}")
    for each in findings(snapshot):
        if each.holder.name == now.name:
            yield _comment(f"{each.severity} {each.code}: {each.text}{'. ' if each.fix else ''}{each.fix}")


def _script(now: "Namespace", made: "Sequence[Change]", cluster: "Sequence[str]") -> Iterator[str]:
    from webhook.insight.namespace.plan import commands, meaning

    if not made:
        yield _comment("There is nothing to change.")
        return
    yield _comment("To change it:")
    for change in made:
        if change.after is None:
            yield _comment(f"  {change.key} is removed")
            continue
        before = "" if change.before is None else f" instead of {fitted(change.before)}"
        said = f"{change.key}={fitted(change.after)}{before}"
        yield _comment(f"  {': '.join(filter(None, (said, meaning(change.key, change.after))))}")
    yield from commands(now.name, made, cluster)


def _workloads(found: "Sequence[Group]", now: "Namespace", *, is_change: bool, is_changed: bool) -> Iterator[str]:
    if not found:
        yield _comment("No known workload of the namespace asks for GPUs.")
        return
    yield _comment(f"New pods of its {counted(sum(len(each.labels) for each in found), 'workload')} with GPUs:")
    for group in found:
        verdict = group.now if group.now == group.then else f"{group.now} -> {group.then}"
        yield _comment(f"  {listed(group.labels, _LISTED)}: {verdict}")
        for warning in group.warnings:
            yield _comment(f"    warning: {warning}")
    if is_change and any(group.lacks_inject for group in found):
        yield _comment("Add --set inject=true: without it, pods with one GPU for each container are left as they are.")
    if is_changed:
        yield _comment("Pods that exist keep what they have: restart their workloads.")
    elif not is_change and not now.injection_enabled:
        yield _comment(f"What they would get: gpu-topology namespace {now.name} --opt-in")
