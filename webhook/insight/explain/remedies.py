"""The first remedy of a pod as data: a JSON Patch of the pod or of its namespace, with which the finding ends."""

from collections.abc import Callable, Iterator, Mapping

from webhook.decisions.request.peer_advice import fitting_profile, lacking_labels
from webhook.decisions.request.ranks import job_label
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Change, Finding
from webhook.insight.explain.variables import ASSIGNMENT
from webhook.objects.pod import Metadata
from webhook.words import names
from webhook.words.catalogue import cards, links, peers
from webhook.words.catalogue import variables as entries
from webhook.words.catalogue.remedies import Remedy
from webhook.words.choices import Profile
from webhook.words.patch import Operation, pointer

_ON = {names.INJECT: "true"}
_OFF_LABEL = (names.INJECTION, "disabled")
_DEFAULT_GROUP = "peers"


def first_change(examined: ExaminedPod, finding: Finding | None) -> Change | None:
    """Return the change with which a finding ends; ``None`` if no change of the pod or its namespace ends it.

    Args:
        examined: The pod.
        finding: The finding that decides whether the pod has NVLink.
    """
    build = CHANGES.get(finding.code) if finding else None
    return build(examined, finding) if build and finding else None


def _inject(examined: ExaminedPod, _: Finding) -> Change | None:
    """Have the webhook inject the pod: its namespace opts in, then the pod asks for it and does not opt out.

    Without a webhook, switch HAMi's library off by hand, unless a container requests a slice, whose limits it enforces.
    """
    namespace, pod = examined.evidence.namespace, examined.evidence.pod
    if not examined.evidence.shows_webhook:
        requests = [container.request for container in examined.containers if container.request]
        return _without_library(examined) if all(request.is_whole for request in requests) else None
    if namespace.known and not namespace.injection_enabled:
        return _of_namespace(examined, {names.INJECTION: "enabled"})
    removed = [pointer("metadata", "labels", names.INJECTION)] if _OFF_LABEL in pod.labels.items() else []
    return _of_pod(examined, _ON, removed)


def _without_library(examined: ExaminedPod) -> Change:
    entry = {"name": names.ENV_DISABLE_CONTROL, "value": "true"}
    lacking = [each for each in examined.containers if names.ENV_DISABLE_CONTROL not in each.own_env]
    return Change(
        Remedy.POD,
        tuple(
            Operation("add", f"{each.env_path}/-", entry) if each.has_env else Operation("add", each.env_path, [entry])
            for each in lacking
        ),
    )


def _without_variable(examined: ExaminedPod, finding: Finding) -> Change | None:
    """Remove a variable where it is set: from the annotations of the pod, of its namespace, or from its containers.

    No patch removes it from a text.
    """
    if finding.remedy.startswith(ASSIGNMENT):
        return None
    name = _LISTS.get(finding.code, finding.condition)
    key = f"{names.PREFIX}{names.ENV_PREFIX}{name}"
    if key in examined.evidence.pod.annotations:
        return _of_pod(examined, {}, [pointer("metadata", "annotations", key)])
    if key in examined.evidence.namespace.annotations:
        return Change(Remedy.NAMESPACE, (Operation("remove", pointer("metadata", "annotations", key)),))
    places = [
        f"{container.env_path}/{index}"
        for container in examined.containers
        for index, variable in reversed(list(enumerate(container.entries)))
        if variable.name == name
    ]
    return _of_pod(examined, {}, places) if places else None


def _linked(examined: ExaminedPod, _: Finding) -> Change | None:
    """Require linked GPUs, so that the planner chooses them."""
    return _of_pod(examined, {names.PREFIX + "require-nvlink": "true"}, [])


def _with_peers(examined: ExaminedPod, _: Finding) -> Change | None:
    """Give the pod the profile with which peers reach its GPU memory, once its namespace permits it."""
    profile = fitting_profile(len(examined.apps))
    if profile is Profile.POD_PEERS:
        return _of_pod(examined, {names.PROFILE: profile.value}, [])
    lacking = lacking_labels(examined.evidence.namespace) if examined.evidence.namespace.known else []
    if lacking:
        return _of_namespace(examined, dict.fromkeys((each.partition("=")[0] for each in lacking), "true"))
    job = job_label(examined.evidence.pod)
    group = job[1] if job else _DEFAULT_GROUP
    return _of_pod(examined, {names.PROFILE: profile.value, names.GROUP: group}, [])


def _of_pod(examined: ExaminedPod, annotations: Mapping[str, str], removed: list[str]) -> Change | None:
    """Return a change of the pod; ``None`` if the pod has all of it already."""
    metadata = examined.evidence.pod.metadata or Metadata()
    new = {key: value for key, value in annotations.items() if examined.evidence.pod.annotations.get(key) != value}
    operations = [Operation("remove", path) for path in removed]
    operations += _added("annotations", new, has_any=bool(metadata.annotations))
    return Change(Remedy.POD, tuple(operations)) if operations else None


def _of_namespace(examined: ExaminedPod, labels: Mapping[str, str]) -> Change:
    has_any = bool(examined.evidence.namespace.labels)
    return Change(Remedy.NAMESPACE, tuple(_added("labels", labels, has_any=has_any)))


def _added(field: str, keys: Mapping[str, str], *, has_any: bool) -> Iterator[Operation]:
    if keys and not has_any:
        yield Operation("add", pointer("metadata", field), dict(keys))
    else:
        yield from (Operation("add", pointer("metadata", field, key), value) for key, value in keys.items())


_LISTS = dict.fromkeys(
    (cards.LIST_SHOWS_NOTHING.code, cards.LIST_UNKNOWN.code, cards.LIST_SHOWS_OTHERS.code),
    names.ENV_NVIDIA_VISIBLE_DEVICES,
) | dict.fromkeys(
    (cards.NUMBERS_HIDE_GPUS.code, cards.NUMBERS_UNREADABLE_BY_LIBRARY.code, cards.NUMBERS_OF_UNKNOWN_GPUS.code),
    names.ENV_CUDA_VISIBLE_DEVICES,
)
CHANGES: Mapping[str, Callable[[ExaminedPod, Finding], Change | None]] = {
    **dict.fromkeys((cards.SLICE.code, cards.SLICE_KEEPS_LIBRARY.code), _inject),
    **dict.fromkeys((cards.LIBRARY_PRELOADED.code, cards.LIBRARY_PERHAPS_PRELOADED.code), _inject),
    **dict.fromkeys(
        (
            *(*_LISTS, entries.P2P_DISABLED.code, entries.P2P_LEVEL_TOO_LOW.code, entries.GRAPH_FILE_EMPTY.code),
            *(entries.DISABLED_P2P_IGNORED.code, entries.EXPANDABLE_SEGMENTS.code),
        ),
        _without_variable,
    ),
    **dict.fromkeys((links.NO_NVLINK_HERE.code, links.SOME_PAIRS_UNLINKED.code), _linked),
    **dict.fromkeys((peers.EXCHANGE_WITHOUT_PEERS.code, peers.RANKS_ON_ONE_NODE.code), _with_peers),
}
"""The changes by the codes of findings."""
