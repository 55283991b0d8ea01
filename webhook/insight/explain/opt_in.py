"""Conditions on injection: the pod is opted in, the webhook prepared it, and nothing of the preparation is missing."""

from collections.abc import Iterator

import msgspec
from jsonpointer import unescape

from webhook import __version__
from webhook.decisions.admit.claims import refuse_promise_of_claims
from webhook.decisions.admit.permissions import check_permissions
from webhook.decisions.admit.trial import StepTrial
from webhook.decisions.options import is_output
from webhook.decisions.request.skip_reasons import Skip, early_skip_reason, skip_reason, unserved_reason
from webhook.decisions.request.unkept_options import unkept_by
from webhook.decisions.stray_keys import stray_keys, stray_keys_of_namespace, unknown_annotations
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, Verdict, fails, hint, holds, not_needed, unknown
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.catalogue.entry import Message, join_all
from webhook.words.catalogue.opting import (
    BAD_OPTION,
    HOW_TO_ASK,
    NAMESPACE_NOT_PERMITTED,
    NAMESPACE_NOT_READ,
    NO_LONGER_PREPARED,
    NOT_PREPARED,
    NOT_PREPARED_NAMESPACE_UNKNOWN,
    NOT_PREPARED_SEE_OPTING,
    ONLY_WATCHED,
    UNREADABLE_NEVER_PREPARED,
    WOULD_BE_REFUSED,
)
from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.listing import counted, listed
from webhook.words.outcome import ENTRIES, Reason, Refused
from webhook.words.patch import Operation
from webhook.words.printable import fitted, printable

OPTED_IN, INJECTED, PREPARED = "opted-in", "injected", "prepared"
KEYS, NAMESPACE_KEYS = "keys", "namespace-keys"

NEEDED = (
    "whole-cards",
    "disable-control",
    "claims",
    "visibility",
    "host-namespaces",
    "isolation",
    "node-identity",
    "shared-memory",
)
"""The steps without which NVLink is lost; the others tune, verify and inform."""

_VERSION_LIMIT = 64
"""Characters of the version in the mark that are shown."""

_WATCHED = "in profile observe the webhook only watches; profile"

_OWN_REASONS = (Reason.OPTED_OUT, Reason.VGPU_SLICE, Reason.OTHER_SCHEDULER)
"""Reasons for which admission leaves a pod alone in every namespace."""


def opting(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the conditions ``opted-in``, ``injected`` and ``prepared``, and hints at keys without effect."""
    if not examined.gpu_containers and not examined.requests_problem:
        yield from _left_alone(examined)
        yield from _options_not_kept(examined)
        return
    taken = _opted_in(examined)
    yield taken
    refused = refusal_of_new_pod(examined)
    if refused:
        yield not_needed(INJECTED, "the pod does not exist")
        yield fails(PREPARED, refused, stops=True)
    else:
        yield _injected(examined, taken)
        yield _prepared(examined)
        yield from _options_not_kept(examined)
    yield from _stray_keys(examined)


def refusal_of_new_pod(examined: ExaminedPod) -> Message | None:
    """Returns why admission refuses a pod that is not created yet: one of a template or a file. None: it does not.

    While it is refused there is no such pod, so its other conditions have nothing to judge.
    """
    if examined.evidence.pod.exists or examined.injected:
        return None
    _, refused = _unkept(examined)
    if refused:
        return Message(WOULD_BE_REFUSED.code, WOULD_BE_REFUSED.say(refusal=refused.found).text, refused.found.fix)
    if examined.actual.subject is None:
        return None
    if examined.options.profile is Profile.OBSERVE:
        return None
    lacking = _lacking_permission(examined)
    found = [*([lacking] if lacking else []), *_refusals(examined)]
    if found:
        refusal = join_all(found)
        said = WOULD_BE_REFUSED.say(refusal=f"{refusal.code}: {refusal.text}").text
        return Message(WOULD_BE_REFUSED.code, said, refusal.fix)
    return None


def _refusals(examined: ExaminedPod) -> list[Message]:
    """Returns why steps of admission refuse the pod; none where admission leaves it alone."""
    namespace = examined.evidence.namespace
    if not namespace.known:
        namespace = Namespace(namespace.name, {names.INJECTION: "enabled"})
    if _skip(examined, namespace)[0] is not None:
        return []
    return list(dict.fromkeys(message for step in examined.actual.steps.values() for message in step.refusals))


def _unkept(examined: ExaminedPod) -> tuple[list[Message], Refused | None]:
    """Returns what is to be told of the options of a pod that is left alone, and why admission would refuse it.

    A namespace that is not known counts as one that has opted in.
    """
    evidence = examined.evidence
    namespace = evidence.namespace
    if not namespace.known:
        namespace = Namespace(namespace.name, {names.INJECTION: "enabled"})
    skip, _ = (None, "") if examined.injected else _skip(examined, namespace)
    if skip is None:
        return [], None
    try:
        return list(unkept_by(evidence.pod, namespace, evidence.policy, skip.reason)), None
    except Refused as refused:
        return [], refused


def _options_not_kept(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields a hint for the options of a pod that is left alone."""
    messages, refused = _unkept(examined)
    for message in [refused.found] if refused else messages:
        yield hint(KEYS, message)


def _stray_keys(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields a hint for each annotation and label that looks like ours and has no effect."""
    pod, namespace = examined.evidence.pod, examined.evidence.namespace
    for message in (*unknown_annotations(examined.options.unknown), *stray_keys(pod)):
        yield hint(KEYS, message)
    for message in stray_keys_of_namespace(namespace):
        said = Message(message.code, f"namespace {namespace.name}: {message.text}", message.fix)
        yield hint(NAMESPACE_KEYS, said)


def _left_alone(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the conditions of a pod without GPUs to inject: it asks for none, for MIG devices, or for claims only.

    Admission skips such a pod. It refuses one only if the pod asks for profile ``exclusive`` itself and HAMi-DRA's
    webhook made its claims.
    """
    reason = Reason.MIG_REQUEST if examined.requests.mig else Reason.NO_GPU_REQUEST
    if examined.gets_claims_alone:
        reason = Reason.RESOURCE_CLAIMS
    sentence = ENTRIES[reason].text
    yield unknown(OPTED_IN, examined.unrecognized) if examined.unrecognized else not_needed(OPTED_IN, sentence)
    yield not_needed(INJECTED, f"the webhook prepares no such pod{_marked(examined)}")
    refusal = _refused_promise(examined)
    if refusal:
        yield fails(PREPARED, WOULD_BE_REFUSED.say(refusal=refusal))
    else:
        yield not_needed(PREPARED, f"the webhook would leave it as it is: {sentence}")


def _refused_promise(examined: ExaminedPod) -> str:
    """Returns why the webhook would refuse a pod with resource claims alone; empty if it would not."""
    evidence = examined.evidence
    skip, _ = _skip(examined, evidence.namespace) if examined.gets_claims_alone else (None, "")
    if skip is None or skip.reason is not Reason.RESOURCE_CLAIMS:
        return ""
    try:
        refuse_promise_of_claims(evidence.pod, evidence.namespace, evidence.policy)
    except (Refused, FormatError) as error:
        return str(error)
    return ""


def _skip(examined: ExaminedPod, namespace: Namespace) -> tuple[Skip | None, str]:
    """Returns why admission would skip the pod in that namespace, and why its options cannot be read."""
    pod, policy = examined.evidence.pod, examined.evidence.policy
    try:
        skip = early_skip_reason(pod, namespace) or skip_reason(pod, namespace, examined.requests, policy)
        return skip or unserved_reason(pod, examined.requests, policy, examined.cluster), ""
    except FormatError as error:
        return None, str(error)


def _opted_in(examined: ExaminedPod) -> Finding:
    evidence = examined.evidence
    if examined.requests_problem:
        return fails(OPTED_IN, examined.requests_problem)
    skip, problem = _skip(examined, evidence.namespace)
    if problem:
        return fails(OPTED_IN, BAD_OPTION.say(problem=problem))
    if skip is None:
        asks = any(key in evidence.pod.annotations for key in (names.INJECT, names.PROFILE))
        why = "the pod asks for it" if asks else f"the pod asks for {counted(examined.gpus, 'GPU')}"
        return holds(OPTED_IN, f"namespace {evidence.namespace.name} has opted in, and {why}")
    return _skipped(examined, skip)


def _skipped(examined: ExaminedPod, skip: Skip) -> Finding:
    message = ENTRIES[skip.reason].say()
    if skip.reason is Reason.NAMESPACE_UNKNOWN:
        return _of_unknown_namespace(examined)
    if examined.injected:
        said = "the pod's containers are prepared; those of a pod like it would not be now"
        return not_needed(OPTED_IN, f"{said}: {message.text}")
    if examined.alone and skip.reason is Reason.NOT_REQUESTED:
        peers = f"if containers or pods are to reach each other's GPUs, set {names.PROFILE}"
        how = HOW_TO_ASK.say().text
        said = f"no container asks for two GPUs, and the pod did not ask for injection; {how}; {peers}"
        return not_needed(OPTED_IN, said)
    if skip.reason is Reason.NAMESPACE_NOT_ENABLED:
        message = _not_enabled(examined.evidence.namespace, message)
    return fails(OPTED_IN, message)


def _not_enabled(namespace: Namespace, message: Message) -> Message:
    """Returns the message that the namespace has not opted in, with a value of its label that has no effect."""
    value = namespace.labels.get(names.INJECTION)
    if value in (None, "enabled", "disabled"):
        return message
    shown = fitted(value) or '""'
    said = f"{message.text}: its label {names.INJECTION} is {shown}, which has no effect"
    return Message(message.code, said, message.fix)


def _of_unknown_namespace(examined: ExaminedPod) -> Finding:
    problem = examined.evidence.reading.namespace_problem
    message = NAMESPACE_NOT_PERMITTED.say(why=problem) if problem else NAMESPACE_NOT_READ.say()
    own = _own_reason(examined)
    if own is not None and not examined.injected:
        reason = ENTRIES[own].say()
        text, fix = f"{message.text}; whatever it says, {reason.text}", f"{reason.fix}. {message.fix}"
        message = Message(reason.code, text, fix)
    return unknown(OPTED_IN, message)


def _own_reason(examined: ExaminedPod) -> Reason | None:
    """Returns why admission leaves the pod alone in every namespace; ``None`` if that depends on the namespace."""
    enabled = Namespace(examined.evidence.namespace.name, {names.INJECTION: "enabled"})
    skip, _ = _skip(examined, enabled)
    return skip.reason if skip and skip.reason in _OWN_REASONS else None


def _injected(examined: ExaminedPod, taken: Finding) -> Finding:
    if examined.injected:
        return holds(INJECTED, f"the containers are prepared for profile {examined.injected_as}{_marked(examined)}")
    if examined.is_observed:
        return fails(INJECTED, ONLY_WATCHED.say(source=_source_of_profile(examined), mark=_marked(examined)))
    return _not_injected(examined, taken)


def _source_of_profile(examined: ExaminedPod) -> str:
    """Returns what gives the pod its profile, in words."""
    evidence = examined.evidence
    if names.PROFILE in evidence.pod.annotations:
        return f"annotation {names.PROFILE} of the pod"
    if names.PROFILE in evidence.namespace.annotations:
        return f"annotation {names.PROFILE} of namespace {evidence.namespace.name}"
    return "defaults.profile of the configuration"


def _not_injected(examined: ExaminedPod, taken: Finding) -> Finding:
    mark = _marked(examined)
    if examined.requests_problem:
        return fails(INJECTED, UNREADABLE_NEVER_PREPARED.say(mark=mark))
    if not examined.evidence.shows_webhook:
        return not_needed(INJECTED, "no sign of the webhook in this input")
    if examined.alone and taken.verdict is not Verdict.HOLDS:
        return not_needed(INJECTED, NOT_PREPARED.say(mark=mark).text)
    if taken.fails or (taken.verdict is Verdict.UNKNOWN and _own_reason(examined) is not None):
        return fails(INJECTED, NOT_PREPARED_SEE_OPTING.say(mark=mark))
    if taken.verdict is Verdict.UNKNOWN:
        return fails(INJECTED, NOT_PREPARED_NAMESPACE_UNKNOWN.say(mark=mark))
    return fails(INJECTED, NOT_PREPARED.say(mark=mark))


def _marked(examined: ExaminedPod) -> str:
    """Returns the content of the mark in words; the text begins with a semicolon, or is empty."""
    profile = Profile.OBSERVE if examined.is_observed else examined.injected_as
    if examined.mark_problem:
        return f"; {examined.mark_problem}, which decides nothing"
    if examined.mark is None:
        return f"; there is no annotation {names.INJECTED}" if profile else ""
    version = fitted(examined.mark.version, _VERSION_LIMIT)
    if examined.mark.profile is not profile:
        return f"; annotation {names.INJECTED} says {examined.mark.profile} (version {version}), which decides nothing"
    said = f"; annotation {names.INJECTED} names version {version}"
    return said if version == __version__ else f"{said}, and this is version {__version__}"


def _prepared(examined: ExaminedPod) -> Finding:
    admission = examined.actual
    if admission.refusal:
        return fails(PREPARED, WOULD_BE_REFUSED.say(refusal=admission.refusal))
    if admission.subject is None:
        return not_needed(PREPARED, "the webhook would leave it as it is: no container is selected")
    if examined.injected:
        return _still_prepared(examined)
    if examined.requests.mig:
        return not_needed(PREPARED, f"the webhook would leave it as it is: {ENTRIES[Reason.MIG_REQUEST].text}")
    is_watched = examined.options.profile is Profile.OBSERVE
    lacking = _lacking_permission(examined)
    refusals = [*([lacking] if lacking else []), *_refusals(examined)]
    if refusals:
        said = "; ".join(message.advice for message in refusals)
        if is_watched:
            return not_needed(PREPARED, f"{_WATCHED} {admission.profile} would refuse it: {said}")
        return fails(PREPARED, WOULD_BE_REFUSED.say(refusal=said))
    purposes = [step.purpose for name, step in admission.steps.items() if step.operations and name != "mark"]
    does = "; ".join(purposes) or "change nothing"
    if is_watched:
        return not_needed(PREPARED, f"{_WATCHED} {admission.profile} would {does}")
    return not_needed(PREPARED, f"the webhook would {does}")


def _lacking_permission(examined: ExaminedPod) -> Message | None:
    """Returns what the namespace does not allow the pod, with the labels that allow it."""
    subject = examined.actual.subject
    if subject is None or not examined.evidence.namespace.known:
        return None
    try:
        check_permissions(subject)
    except Refused as refused:
        return refused.found
    return None


def _still_prepared(examined: ExaminedPod) -> Finding:
    lacking = list(dict.fromkeys(text for name in NEEDED for text in lacks(examined, name)))
    if lacking:
        return fails(PREPARED, NO_LONGER_PREPARED.say(lacking="; ".join(lacking)))
    return holds(PREPARED, "everything is there that this profile needs")


def lacks(examined: ExaminedPod, name: str) -> Iterator[str]:
    """Yields a sentence for each thing that a step would still change or refuse."""
    step = examined.actual.steps.get(name)
    if step is None:
        return
    if step.refusal:
        yield step.refusal
    yield from dict.fromkeys(_lack(examined, operation) for operation in missing(step))


def missing(step: StepTrial) -> Iterator[Operation]:
    """Yields the changes of a step, without annotations whose value bind writes, and without volumes."""
    for operation in step.operations:
        section, field, key, *_ = [*operation.path.split("/")[1:], "", ""]
        if section == "metadata" and field != "labels" and _is_value_of_bind(operation, unescape(key)):
            continue
        if (section, field) != ("spec", "volumes"):  # their mounts are changes too
            yield operation


def _is_value_of_bind(operation: Operation, key: str) -> bool:
    keys = [key] if key else list(operation.value or ())
    return all(is_output(key) or key == names.NCCL_P2P_LEVEL for key in keys)


def _lack(examined: ExaminedPod, operation: Operation) -> str:
    container = next(
        (container for container in examined.containers if operation.path.startswith(container.path + "/")), None
    )
    if container is None:
        return f"the pod lacks {_field(operation)}"
    rest = operation.path.removeprefix(container.path + "/")
    if rest.startswith(("env", "volumeMounts")):
        return f"container {container.name} lacks {_entry(operation)}"
    wanted = "should not be there" if operation.op == "remove" else f"should be {_in_words(operation.value)}"
    return f"container {container.name}: {unescape(rest.rpartition('/')[2])} {wanted}"


def _in_words(value: object) -> str:
    """Returns a value in words: ``nvidia.com/gpu 2`` for a mapping, ``a and b`` for a list."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return listed(f"{key} {_in_words(item)}" for key, item in plain.items())
    if isinstance(plain, list):
        return listed(map(_in_words, plain))
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return "empty" if plain in (None, "") else printable(str(plain))


def _field(operation: Operation) -> str:
    return ".".join(unescape(part) for part in operation.path.split("/")[2:] if part != "-")


def _entry(operation: Operation) -> str:
    value = operation.value[0] if isinstance(operation.value, list) else operation.value
    entry = msgspec.json.decode(msgspec.json.encode(value))
    return str(entry["name"]) if "mountPath" not in entry else f"a mount at {entry['mountPath']}"
