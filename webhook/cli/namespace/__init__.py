"""``gpu-topology namespace``: what a namespace has opted into, and the lines that change it."""

import enum
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from webhook.cli.candidates import namespaces
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, refuse_cluster, wanted_cluster
from webhook.cli.namespace.options import given_options, given_variables, with_options
from webhook.cli.output import Output
from webhook.cli.scope_options import FILE_OPTION, RECURSIVE_OPTION, StateOption
from webhook.cli.versions import HAMI_OPTION, KUBERNETES_OPTION
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.object_names import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webhook.cli.namespace.output import Shown
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.snapshot.model import Snapshot
    from webhook.insight.namespace.plan import Plan, Wanted
    from webhook.insight.namespace.workloads import Trial, Workload
    from webhook.objects.pod import Namespace

_PERMISSIONS = "allow-"
_TRIED = 64
"""The number of workloads whose dependence on versions is tried: each costs 15 decisions."""


class Permission(enum.StrEnum):
    """What a namespace can be permitted beyond its options: labels, without the prefix."""

    HOST_IPC = "host-ipc"
    HOST_PID = "host-pid"
    HOST_NETWORK = "host-network"
    NODE_GPUS = "node-gpus"


class Known(NamedTuple):
    """A namespace, and what is known of its workloads."""

    namespace: "Namespace"
    workloads: "list[Workload]"
    snapshot: "Snapshot"
    version: "Mapping[str, str]" = MappingProxyType({})
    """The ``uid`` and ``resourceVersion`` of a namespace at an API server."""


@with_options
def namespace(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=namespaces, help="The namespace.")],
    opt_in: Annotated[bool, typer.Option("--opt-in", help="Opt in; every other option does too.")] = False,
    observe: Annotated[bool, typer.Option("--observe", help="Only watch its pods: --profile observe.")] = False,
    allow: Annotated[
        list[Permission] | None,
        typer.Option(help="Permit more than the options need; may be given again."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Variable of its containers with GPUs; may be given again."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Option or label to remove, such as profile or injection."),
    ] = None,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Print the way back: from these options, or without any the way out of all."),
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write it after a question, and print the way back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply, without the question.")] = False,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    hami_version: Annotated[str, HAMI_OPTION] = "",
    kubernetes_version: Annotated[str, KUBERNETES_OPTION] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
    **options: Any,
) -> None:
    """Tell what a namespace has opted into, and what its pods would get; with options, print how to change it.

    Nothing is changed without --apply. The output is a script: its kubectl lines can be run, the rest is comments.
    """
    from webhook.cli.namespace.output import Shown
    from webhook.insight.namespace.workloads import trials

    _check_name(name)
    wanted = _wanted(given_options(options) | given_variables(env), allow, unset, observe=observe)
    is_change = opt_in or wanted is not None
    if state is not None:
        refuse_cluster(kubeconfig, context, "give either a state directory or a cluster")
    is_live = bool(kubeconfig or context) or (file is None and state is None)
    if apply:
        _check_apply(is_live=is_live, is_change=is_change, undo=undo, asks=not yes, output=output)
    cluster = wanted_cluster(kubeconfig, context) if is_live else None
    known = _live(name, cluster, config) if is_live else _files(name, file, state, config, recursive=recursive)
    known = known._replace(snapshot=_overruled(known.snapshot, hami_version, kubernetes_version))
    planned = _plan(known, wanted, is_change=is_change, undo=undo)
    tried = trials(known.workloads, planned.now, planned.then, known.snapshot)
    _tell_of_versions(tried, planned.then, known.snapshot)
    shown = Shown(
        planned, tried, known.snapshot, _of_kubectl(kubeconfig, context), is_change or undo, undo and is_change
    )
    if apply:
        _apply(shown, cluster, known.version, asks=not yes, output=output)
    else:
        _print(shown, output)


def _overruled(snapshot: "Snapshot", hami: str, kubernetes: str) -> "Snapshot":
    """Return the snapshot with the versions of the options.

    Raises:
        BadParameter: a version is none that is supported.
    """
    import msgspec

    from webhook.cli.versions import given_versions, overruled

    policy = overruled(snapshot.policy, given_versions(hami, kubernetes))
    setting = msgspec.structs.replace(snapshot.setting, policy=policy)
    return msgspec.structs.replace(snapshot, setting=setting)


def _tell_of_versions(tried: "Sequence[Trial]", then: "Namespace", snapshot: "Snapshot") -> None:
    """Write a note on standard error if versions are not known on which some of the outcomes depend."""
    from webhook.cli.workload.versions import depends_on_versions, unknown_versions, version_note
    from webhook.insight.namespace.workloads import inputs

    facts, differences = snapshot.facts, frozenset[str]()
    for trial in tried[:_TRIED]:
        pod = trial.workload.pod
        policy, specs = inputs(pod, then.name, snapshot)
        differences |= depends_on_versions(pod, then, policy, facts, trial.then, specs)
    note = version_note(unknown_versions(facts.overruled_by(snapshot.policy.versions)), differences)
    if note:
        complain(note)


def _print(shown: "Shown", output: Output) -> None:
    from webhook.cli.namespace.output import as_json, as_text

    typer.echo(as_json(shown) if output is Output.JSON else as_text(shown), nl=False)


def _check_apply(*, is_live: bool, is_change: bool, undo: bool, asks: bool, output: Output) -> None:
    """Raises BadParameter if there is nothing to write, or nowhere, or if the question would spoil the output."""
    if not is_live:
        raise typer.BadParameter("files are not changed: it needs a cluster", param_hint="--apply")
    if not (is_change or undo):
        raise typer.BadParameter("give an option to set, or --undo", param_hint="--apply")
    if is_change and undo:
        raise typer.BadParameter("with options it prints the way back by itself", param_hint="--undo")
    if asks and output is Output.JSON:
        raise typer.BadParameter("with --output json it needs --yes", param_hint="--apply")


def _apply(
    shown: "Shown", cluster: "Context | None", version: "Mapping[str, str]", *, asks: bool, output: Output
) -> None:
    """Write the plan after a question. The plan goes to standard error; standard output gets the way back, or JSON.

    Raises:
        GpuTopologyError: nothing was written.
        Exit: the answer to the question is no.
    """
    from webhook.cli.namespace.output import as_text, way_back
    from webhook.cluster.api.namespace_change import change_namespace
    from webhook.insight.namespace.plan import Field

    plan = shown.plan
    if output is Output.TEXT:
        typer.echo(as_text(shown), err=True)
    if plan.changes:
        if asks and not _is_confirmed(f"Write this to namespace {plan.now.name}?"):
            complain("gpu-topology: nothing was written")
            raise typer.Exit(1)
        labels, annotations = plan.values(Field.LABEL), plan.values(Field.ANNOTATION)
        change_namespace(cluster, plan.now.name, version, labels, annotations)
    if output is Output.JSON:
        _print(shown, output)
    elif plan.changes:
        typer.echo(way_back(shown), nl=False)


def _is_confirmed(question: str) -> bool:
    """Ask on standard error, so that standard output stays a script; the end of the input is a no."""
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _check_name(name: str) -> None:
    if not NAMESPACE.fullmatch(name):
        raise typer.BadParameter(f"expected the name of a namespace, such as team-a, found {name!r}", param_hint="NAME")


def _wanted(
    options: dict[str, str], allow: "list[Permission] | None", unset: list[str] | None, *, observe: bool
) -> "Wanted | None":
    """Return what is asked for; None if nothing is.

    Raises:
        BadParameter: two options contradict each other.
    """
    from webhook.insight.namespace.plan import Wanted

    if observe and options.setdefault("profile", Profile.OBSERVE) != Profile.OBSERVE:
        raise typer.BadParameter("give either a profile or --observe", param_hint="--observe")
    removed = [key.removeprefix(names.PREFIX) for key in unset or []]
    permitted = [_PERMISSIONS + each for each in allow or []]
    for key in {*options, *permitted} & set(removed):
        raise typer.BadParameter(f"{key} is to be set and removed: give one of the two", param_hint="--unset")
    return Wanted(options, permitted, removed) if options or permitted or removed else None


def _plan(known: Known, wanted: "Wanted | None", *, is_change: bool, undo: bool) -> "Plan":
    """Return the plan: what is asked for, without that the way out, or no change.

    Raises:
        FormatError: a value does not parse.
    """
    from webhook.insight.namespace.plan import Plan, Wanted, plan, way_out

    if is_change:
        try:
            return plan(known.namespace, wanted or Wanted(), known.snapshot.policy.defaults)
        except FormatError as error:
            if error.source.startswith("option "):
                raise typer.BadParameter(str(error).partition(": ")[2], param_hint=error.source[7:]) from None
            raise
    return way_out(known.namespace) if undo else Plan(known.namespace, known.namespace, ())


def _live(name: str, cluster: "Context | None", config: Path | None) -> Known:
    from webhook.cli.snapshots import from_cluster
    from webhook.cluster.snapshot.namespace_workloads import read_workloads
    from webhook.cluster.snapshot.template_pods import template_pods
    from webhook.insight.namespace.workloads import of_pods, of_templates

    read = read_workloads(cluster, name)
    for problem in read.problems:
        complain(f"gpu-topology: {problem}: workloads of this kind are known from their pods alone")
    snapshot = from_cluster(cluster, name, config).snapshot
    workloads = [*of_templates(template_pods(read.templates)), *of_pods(snapshot.pods, name, read.made)]
    return Known(read.namespace, workloads, snapshot, read.version)


def _files(name: str, file: list[str] | None, state: Path | None, config: Path | None, *, recursive: bool) -> Known:
    from webhook.cli.snapshots import from_files
    from webhook.cluster.files.manifests import read_files
    from webhook.cluster.snapshot.template_pods import template_pods
    from webhook.insight.namespace.workloads import of_pods, of_templates
    from webhook.objects.pod import Namespace

    files = read_files(file or [], recursive=recursive)
    read = from_files(files, state, None, config, default_namespace=name)
    there = read.snapshot.namespaces.get(name)
    if there is None:
        complain(f"note: namespace {name} is not in these files: it counts as new, without labels and annotations")
    made = [each for each in template_pods(read.templates) if each.known.namespace == name]
    covered = {f"{each.template.owner.kind} {each.template.owner.name}" for each in made}
    workloads = [*of_templates(made), *of_pods(read.snapshot.pods, name, covered)]
    return Known(there or Namespace(name), workloads, read.snapshot)


def _of_kubectl(kubeconfig: Path | None, context: str) -> "Sequence[str]":
    """Return the arguments by which kubectl finds the same cluster."""
    of_file = ("--kubeconfig", str(kubeconfig)) if kubeconfig else ()
    return (*of_file, *(("--context", context) if context else ()))
