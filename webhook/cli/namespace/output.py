"""A namespace and its plan, as a commented script and as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from webhook.cluster.snapshot.model import Snapshot
from webhook.decisions.admit.steps import STEPS
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.insight.analyze.namespaces import namespaces
from webhook.insight.namespace.kubectl import lines
from webhook.insight.namespace.plan import Change, Plan, settings
from webhook.insight.namespace.workloads import Trial
from webhook.objects.pod import Namespace
from webhook.words.listing import counted
from webhook.words.outcome import SENTENCES, Kind, Outcome, Reason
from webhook.words.printable import fitted, printable

_NO_EFFECT = "no effect"
_PURPOSES = {step.name: step.purpose for step in STEPS if step.name != "mark"}


class Shown(NamedTuple):
    """What is shown."""

    plan: Plan
    trials: Sequence[Trial]
    snapshot: Snapshot
    cluster: Sequence[str]
    """The arguments of kubectl that name the cluster."""
    is_change: bool
    """Whether a change was asked for."""
    is_way_back: bool
    """Whether the way back from the plan is asked for, and not the plan."""

    @property
    def namespace(self) -> Namespace:
        """The namespace as it is."""
        return self.plan.now

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of the lines that are printed."""
        return self.plan.way_back if self.is_way_back else self.plan.changes


def as_text(shown: Shown) -> str:
    """Return a script of bash: kubectl lines, and everything else as comments. Control characters are escaped."""
    parts = [_settings(shown.namespace), _problems(shown)]
    if shown.is_change:
        parts.append(_script(shown))
    if not shown.is_way_back:
        parts.append(_workloads(shown))
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def way_back(shown: Shown) -> str:
    """Return a script that undoes the plan."""
    commands = [line.command for line in lines(shown.namespace.name, shown.plan.way_back, shown.cluster)]
    return "\n".join([_comment(f"Namespace {shown.namespace.name} is changed. The way back:"), *commands]) + "\n"


def as_json(shown: Shown) -> str:
    """Return one JSON object."""
    plan = shown.plan
    document = {
        "namespace": plan.now.name,
        "optedIn": plan.now.injection_enabled,
        "settings": [each._asdict() for each in settings(plan.now)],
        "findings": [_finding(each) for each in _found(shown)],
        "changes": [_change(each) for each in plan.changes],
        "commands": [line.command for line in lines(plan.now.name, plan.changes, shown.cluster)],
        "wayBack": [line.command for line in lines(plan.now.name, plan.way_back, shown.cluster)],
        "workloads": [_workload(each) for each in shown.trials],
    }
    return json.dumps(document, indent=2) + "\n"


def _comment(text: str) -> str:
    return f"# {printable(text)}".rstrip()


def _settings(namespace: Namespace) -> Iterator[str]:
    said = "has opted in" if namespace.injection_enabled else "has not opted in: its pods are left as they are"
    yield _comment(f"Namespace {namespace.name} {said}.")
    for each in settings(namespace):
        yield _comment(f"  {each.field} {each.key}={fitted(each.value)}: {each.meaning or _NO_EFFECT}")


def _found(shown: Shown) -> list[Diagnosis]:
    """Return what ``analyze`` finds about the labels and annotations of the namespace."""
    return [each for each in namespaces(shown.snapshot) if each.holder.name == shown.namespace.name]


def _problems(shown: Shown) -> Iterator[str]:
    for each in _found(shown):
        yield _comment(f"{each.severity} {each.code}: {each.text}")
        if each.fix:
            yield _comment(f"  -> {each.fix}")


def _script(shown: Shown) -> Iterator[str]:
    if not shown.changes:
        yield _comment("The namespace has all of this: there is nothing to change.")
        return
    yield _comment("The way back:" if shown.is_way_back else "To change it:")
    for line in lines(shown.namespace.name, shown.changes, shown.cluster):
        for change in line.changes:
            yield _comment(f"  {_arrow(change)}{': ' if change.meaning else ''}{change.meaning}")
        yield line.command


def _arrow(change: Change) -> str:
    if change.after is None:
        return f"{change.key} is removed"
    before = "" if change.before is None else f" instead of {fitted(change.before)}"
    return f"{change.key}={fitted(change.after)}{before}"


def _workloads(shown: Shown) -> Iterator[str]:
    if not shown.trials:
        yield _comment("No workload of the namespace asks for GPUs.")
        return
    is_tried = shown.is_change and bool(shown.plan.changes)
    refused = sum(trial.is_newly_refused for trial in shown.trials)
    heading = f"New pods of its {counted(len(shown.trials), 'workload')} with GPUs"
    if refused:
        heading += f", of which {refused} would be refused afterwards"
    yield _comment(f"{heading}:")
    for trial in shown.trials:
        yield _comment(f"  {_title(trial)}")
        yield from _outcomes(trial, is_tried=is_tried)
        for message in trial.workload.misplaced:
            yield _comment(f"    warning: {message.advice}")
    if shown.is_change and any(trial.then.reason is Reason.NOT_REQUESTED for trial in shown.trials):
        yield _comment("Add --inject: without it, pods with one GPU for each container are left as they are.")
    if is_tried:
        yield _comment("Pods that exist keep what they have: restart their workloads.")
    elif not shown.is_change and not shown.namespace.injection_enabled:
        yield _comment(f"What they would get: gpu-topology namespace {shown.namespace.name} --opt-in")


def _title(trial: Trial) -> str:
    """Return the name of a workload; of pods also their number, because their template is not known."""
    label, pods = trial.workload.label, trial.pods
    return f"{label} ({counted(pods, 'pod')})" if pods else label


def _outcomes(trial: Trial, *, is_tried: bool) -> Iterator[str]:
    if is_tried and not trial.is_alike:
        yield from _outcome("now:  ", trial.now)
        yield from _outcome("then: ", trial.then, trial.now.steps)
    else:
        yield from _outcome("now and then: " if is_tried else "", trial.now)


def _outcome(when: str, outcome: Outcome, before: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of an outcome; with the steps of another one before it, only those that differ."""
    yield _comment(f"    {when}{_verdict(outcome)}")
    if outcome.kind is not Kind.SKIP and outcome.reason is not Reason.OBSERVED:
        yield from _steps("new: " if before else "to ", [step for step in outcome.steps if step not in before])
        if outcome.steps:
            yield from _steps("no longer: ", [step for step in before if step not in outcome.steps])
    for warning in outcome.warnings:
        yield _comment(f"      warning: {warning}")


def _steps(before: str, steps: Iterable[str]) -> Iterator[str]:
    said = [_PURPOSES[step] for step in _known(steps)]
    if said:
        yield _comment(f"      {before}{', '.join(said)}")


def _verdict(outcome: Outcome) -> str:
    if not outcome.allowed:
        return f"refused: {fitted(outcome.message)}"
    if outcome.reason is Reason.OBSERVED:
        return f"observed: the warnings say what profile {outcome.profile} would do"
    if not outcome.profile:
        return f"left as they are: {SENTENCES[outcome.reason]}"
    lacking = f", with a loss: {SENTENCES[outcome.reason]}" if outcome.kind is Kind.DEGRADED else ""
    return f"injected with profile {outcome.profile}{lacking}"


def _finding(found: Diagnosis) -> dict[str, Any]:
    return {"severity": found.severity, "code": found.code, "text": found.text, "fix": found.fix}


def _change(change: Change) -> dict[str, Any]:
    return {**change._asdict(), "meaning": change.meaning}


def _workload(trial: Trial) -> dict[str, Any]:
    return {
        "workload": trial.workload.label,
        "pods": trial.pods,
        "now": _decision(trial.now),
        "then": _decision(trial.then),
        "misplaced": list(map(str, trial.workload.misplaced)),
    }


def _decision(outcome: Outcome) -> dict[str, Any]:
    return {
        "kind": outcome.kind,
        "reason": outcome.reason,
        "profile": outcome.profile,
        "steps": list(_known(outcome.steps)),
        "warnings": outcome.warnings,
        "message": outcome.message,
    }


def _known(steps: Iterable[str]) -> Iterator[str]:
    return (step for step in steps if step in _PURPOSES)
