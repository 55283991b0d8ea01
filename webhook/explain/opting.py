"""Is the pod one of ours, did the webhook prepare it, and is everything there that it would write?"""

from collections.abc import Iterator, Mapping

import msgspec
from jsonpointer import unescape

from webhook import __version__
from webhook.admit.decide import Passed, passes, passes_unseen
from webhook.admit.permissions import check_permissions
from webhook.admit.trial import StepTrial
from webhook.explain.case import Case
from webhook.explain.findings import Finding, Verdict, fails, holds, not_needed, unknown
from webhook.explain.words import clause, counted
from webhook.model import names
from webhook.model.errors import FormatError
from webhook.model.options import is_output
from webhook.model.outcome import SENTENCES, Reason, Refused
from webhook.model.patch import Operation

OPTED_IN, INJECTED, PREPARED = "opted-in", "injected", "prepared"

NEEDED = (
    "whole-cards",
    "disable-control",
    "visibility",
    "host-namespaces",
    "node-identity",
    "shared-memory",
)
"""The steps without which NVLink is lost; the others tune, verify and tell."""

_AGAIN = "create the pod again: the containers of a pod cannot be changed"

_REMEDIES: Mapping[Reason, str] = {
    Reason.NAMESPACE_UNKNOWN: "Give the namespace with --state or --kubeconfig",
    Reason.NAMESPACE_NOT_ENABLED: f"An administrator sets the label {names.INJECTION}: enabled on the namespace",
    Reason.OPTED_OUT: f'Remove the label {names.INJECTION}: disabled or the annotation {names.INJECT}: "false"',
    Reason.MIG_REQUEST: "Ask for whole GPUs",
    Reason.VGPU_SLICE: f'Set {names.INJECT}: "true" on the pod; it then gets, and is accounted for, whole cards',
    Reason.NOT_REQUESTED: f'Set {names.INJECT}: "true" on the pod',
}


def opting(case: Case) -> Iterator[Finding]:
    """Opted in, injected, and nothing missing."""
    taken = _opted_in(case)
    yield taken
    yield _injected(case, taken)
    yield _prepared(case)


def _opted_in(case: Case) -> Finding:
    evidence = case.evidence
    if case.requests_problem:
        return fails(OPTED_IN, case.requests_problem, "Write a whole number")
    try:
        passed = passes_unseen(evidence.pod, evidence.namespace) or passes(
            evidence.pod, evidence.namespace, case.requests, evidence.policy.defaults.inject
        )
    except FormatError as error:
        return fails(OPTED_IN, str(error), "Correct the annotation")
    if passed is None:
        asks = any(key in evidence.pod.annotations for key in (names.INJECT, names.PROFILE))
        why = "the pod asks for it" if asks else f"the pod asks for {counted(case.gpus, 'GPU')}"
        return holds(OPTED_IN, f"namespace {evidence.namespace.name} has opted in, and {why}")
    return _passed(case, passed)


def _passed(case: Case, passed: Passed) -> Finding:
    sentence = clause(SENTENCES[passed.reason])
    if case.injected:
        said = "the pod was injected when it was created; one like it would not be now"
        return not_needed(OPTED_IN, f"{said}: {sentence}")
    if passed.reason is Reason.NAMESPACE_UNKNOWN:
        return unknown(OPTED_IN, sentence, _REMEDIES[passed.reason])
    if passed.reason is Reason.NO_GPU_REQUEST:
        return not_needed(OPTED_IN, sentence)
    if case.alone and passed.reason is Reason.NOT_REQUESTED:
        peers = f"if containers or pods are to reach each other's GPUs, set {names.PROFILE}"
        return not_needed(OPTED_IN, f"no container asks for two GPUs, and the pod did not ask for injection; {peers}")
    return fails(OPTED_IN, sentence, _REMEDIES.get(passed.reason, ""))


def _injected(case: Case, taken: Finding) -> Finding:
    if case.mark_problem:
        return fails(INJECTED, case.mark_problem, f"Remove the annotation and {_AGAIN}")
    mark = case.mark
    if mark is None:
        return _not_injected(case, taken)
    said = f"version {mark.version} prepared it for profile {mark.profile}"
    if not case.injected:
        return fails(INJECTED, f"{said}: it is only watched", f"Set {names.PROFILE} to another profile and {_AGAIN}")
    return holds(INJECTED, said + ("" if mark.version == __version__ else f"; this is version {__version__}"))


def _not_injected(case: Case, taken: Finding) -> Finding:
    said = f"no annotation {names.INJECTED}: no webhook prepared the pod"
    if case.alone and taken.verdict is not Verdict.HOLDS:
        return not_needed(INJECTED, said)
    if taken.fails:
        return fails(INJECTED, said, f"See to {OPTED_IN}, and {_AGAIN}")
    return fails(INJECTED, said, f"Look whether the webhook is registered and was running, and {_AGAIN}")


def _prepared(case: Case) -> Finding:
    if case.subject is None:
        return fails(PREPARED, f"the webhook would refuse the pod: {case.refusal}", "Correct what the message names")
    if case.injected:
        return _still_prepared(case)
    refusals = [*_permissions(case), *(step.refusal for step in case.steps.values() if step.refusal)]
    if refusals:
        said = "; ".join(dict.fromkeys(refusals))
        return fails(PREPARED, f"the webhook would refuse the pod: {said}", "Correct what the message names")
    purposes = [step.purpose for name, step in case.steps.items() if step.operations and name != "mark"]
    return not_needed(PREPARED, f"the webhook would {'; '.join(purposes) or 'change nothing'}")


def _permissions(case: Case) -> Iterator[str]:
    if case.subject is None or not case.evidence.namespace.known:
        return
    try:
        check_permissions(case.subject)
    except Refused as refused:
        yield refused.message


def _still_prepared(case: Case) -> Finding:
    lacking = list(dict.fromkeys(text for name in NEEDED for text in lacks(case, name)))
    if lacking:
        return fails(PREPARED, "; ".join(lacking), f"Find out who changed it, and {_AGAIN}")
    return holds(PREPARED, "everything is there that this profile needs")


def lacks(case: Case, name: str) -> Iterator[str]:
    """What a step would still change or not allow: a sentence for each thing."""
    step = case.steps.get(name)
    if step is None:
        return
    if step.refusal:
        yield step.refusal
    yield from dict.fromkeys(_lack(case, operation) for operation in missing(step))


def missing(step: StepTrial) -> Iterator[Operation]:
    """The changes of a step without those of annotations whose value is bind's, and without volumes."""
    for operation in step.operations:
        section, field, key, *_ = [*operation.path.split("/")[1:], "", ""]
        if section == "metadata" and field != "labels" and _is_value_of_bind(operation, unescape(key)):
            continue
        if (section, field) != ("spec", "volumes"):  # the mounts say it
            yield operation


def _is_value_of_bind(operation: Operation, key: str) -> bool:
    keys = [key] if key else list(operation.value or ())
    return all(is_output(one) or one == names.NCCL_P2P_LEVEL for one in keys)


def _lack(case: Case, operation: Operation) -> str:
    container = next((one for one in case.containers if operation.path.startswith(one.path + "/")), None)
    if container is None:
        return f"the pod lacks {_field(operation)}"
    rest = operation.path.removeprefix(container.path + "/")
    if rest.startswith(("env", "volumeMounts")):
        return f"container {container.name} lacks {_entry(operation)}"
    wanted = "should not be there" if operation.op == "remove" else f"should be {operation.value}"
    return f"container {container.name}: {unescape(rest.rpartition('/')[2])} {wanted}"


def _field(operation: Operation) -> str:
    return ".".join(unescape(part) for part in operation.path.split("/")[2:] if part != "-")


def _entry(operation: Operation) -> str:
    value = operation.value[0] if isinstance(operation.value, list) else operation.value
    entry = msgspec.json.decode(msgspec.json.encode(value))
    return str(entry["name"]) if "mountPath" not in entry else f"a mount at {entry['mountPath']}"
