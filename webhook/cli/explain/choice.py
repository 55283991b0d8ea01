"""The choice of the explained pod among those of files: a pod, or one that the template of a workload would make."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from webhook.cli.complaint import complain
from webhook.cli.explain.preparation import prepared_pod
from webhook.cluster.files.manifests import ManifestFile
from webhook.cluster.snapshot.documents import ReadSnapshot
from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.pod_reference import POD, Wanted
from webhook.cluster.snapshot.template_pods import TemplatePod, template_pods
from webhook.words.errors import FormatError, ManifestError

_LISTED = 8
_EXPECTED = "expected a Pod or a workload such as a Job"
_NOTHING = "nothing. If a command wrote it, look whether that command has failed"
_PREPARED = ", as the webhook would prepare it"
_REMEDY = "Give the Pods themselves: kubectl get pods -l KEY=VALUE -o yaml"


class GivenFiles(NamedTuple):
    """The manifests of a command."""

    texts: Sequence[ManifestFile]
    namespace: str
    """The namespace of objects that name none."""

    @property
    def source(self) -> str:
        """The manifests in messages."""
        first, others = self.texts[0].source, len(self.texts) - 1
        return f"{first} and {others} more files" if others else first


def choose(read: ReadSnapshot, wanted: Wanted | None, source: str) -> KnownPod:
    """Return the explained pod. Pods come before templates; about a template a note on standard error says so.

    Args:
        read: The content of the manifests.
        wanted: The named pod or workload; None if there is no more than one.
        source: The manifests in messages.

    Raises:
        ManifestError: there is no such pod or workload, or a template has a field of another type than in a pod.
        FormatError: there are several.
    """
    if wanted is None and read.given:
        return _told_of_pod(choose_pod(read.given, None, source), read.snapshot, source)
    if not read.given and not read.templates:
        raise ManifestError(f"{source}: {_EXPECTED}, found {_found(read)}")
    if wanted and wanted.kind is POD and any(_is_meant(pod, wanted) for pod in read.given):
        return _told_of_pod(choose_pod(read.given, wanted, source), read.snapshot, source)
    made = list(template_pods(read.templates))
    meant = [each for each in made if wanted is None or _makes(each, wanted)]
    chosen = _one_of(meant)
    if chosen:
        return _told(chosen, [each for each in made if _are_of_one(each, chosen)], read.snapshot)
    if wanted and wanted.kind is not POD and not meant:
        raise ManifestError(f"{source}: {_no_workload(wanted, made)}")
    if meant:
        return choose_pod((each.known for each in meant), None, source)
    return choose_pod([*read.given, *(each.known for each in made)], wanted, source)


def choose_pod(pods: Iterable[KnownPod], wanted: Wanted | None, source: str) -> KnownPod:
    """Return the named pod, or the only one.

    Raises:
        ManifestError: there is no such pod.
        FormatError: there are several, or there is none.
    """
    known = list(pods)
    matching = [pod for pod in known if wanted is None or _is_meant(pod, wanted)]
    if len(matching) == 1:
        return matching[0]
    listed = _listed([f"{pod.namespace}/{pod.name}" for pod in (matching or known)])
    if wanted and not matching:
        is_known = any(pod.namespace == wanted.namespace for pod in known)
        missing = f"pod {_named(wanted)}" if is_known or not known else f"pod of namespace {wanted.namespace}"
        missing = missing if wanted.namespace else f"pod {wanted.name}"
        raise ManifestError(f"{source}: there is no {missing}" + (f"; the pods there are {listed}" if listed else ""))
    if not known:
        raise ManifestError(f"{source}: {_EXPECTED}, found {_NOTHING}")
    raise FormatError(
        source,
        expected=f"the pod {_named(wanted)}, once" if wanted else "one Pod",
        found=listed,
        fix="" if wanted else "Name one: NAMESPACE/POD",
    )


def _told(chosen: TemplatePod, siblings: Sequence[TemplatePod], snapshot: Snapshot) -> KnownPod:
    """Return the pod as the webhook would prepare it, with a note on standard error."""
    prepared = prepared_pod(chosen.known, snapshot, chosen.document)
    complain(f"gpu-topology: {_note(chosen, siblings, _how(prepared, snapshot))}")
    launchers = tuple(
        each.known.pod
        for each in siblings
        if each is not chosen and (each.template.owner.kind, each.template.part) == ("MPIJob", "launcher")
    )
    return msgspec.structs.replace(prepared or chosen.known, launchers=launchers)


def _told_of_pod(known: KnownPod, snapshot: Snapshot, source: str) -> KnownPod:
    """Return a pod that exists, or one that is not created yet, as the webhook would prepare it, with a note."""
    prepared = prepared_pod(known, snapshot)
    if prepared:
        how = _how(prepared, snapshot)
        complain(f"gpu-topology: {source}: Pod {known.namespace}/{known.name}: what follows is about the pod{how}")
    return prepared or known


def _how(prepared: KnownPod | None, snapshot: Snapshot) -> str:
    if prepared is None:
        return ""
    is_known = snapshot.namespace(prepared.namespace).known
    return _PREPARED if is_known else f"{_PREPARED}, if the namespace has opted in"


def _found(read: ReadSnapshot) -> str:
    return f"{read.others[0]}. {_REMEDY}" if read.others else _NOTHING


def _no_workload(wanted: Wanted, made: Sequence[TemplatePod]) -> str:
    there = _listed(sorted({each.workload for each in made}))
    missing = f"there is no {wanted.kind.word} {_named(wanted)}"
    return f"{missing}; the workloads there are {there}" if there else missing


def _named(wanted: Wanted) -> str:
    return f"{wanted.namespace}/{wanted.name}" if wanted.namespace else wanted.name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _is_meant(pod: KnownPod, wanted: Wanted) -> bool:
    return pod.name == wanted.name and wanted.namespace in ("", pod.namespace)


def _makes(made: TemplatePod, wanted: Wanted) -> bool:
    """Return whether the reference means this pod, or its workload: ``rayjob/train`` reads as a namespace and a pod."""
    if wanted.kind is not POD:
        return made.is_of(wanted.kind.word, wanted.name) and wanted.namespace in ("", made.known.namespace)
    is_in = wanted.namespace in ("", made.known.namespace)
    is_named = wanted.name in (made.known.name, made.template.owner.name)
    return (is_in and is_named) or made.is_of(wanted.namespace, wanted.name)


def _one_of(meant: Sequence[TemplatePod]) -> TemplatePod | None:
    """Return the only one, or the only one that asks for GPUs; of a workload whose templates are alike, the first."""
    asking = [each for each in meant if each.template.asks_for_gpus] or list(meant)
    are_alike = all(_are_of_one(each, asking[0]) and _are_alike(each, asking[0]) for each in asking)
    return asking[0] if asking and are_alike else None


def _are_of_one(one: TemplatePod, other: TemplatePod) -> bool:
    return one.template.owner is other.template.owner


def _are_alike(one: TemplatePod, other: TemplatePod) -> bool:
    return bool(one.template.value == other.template.value)


def _note(chosen: TemplatePod, siblings: Sequence[TemplatePod], how: str) -> str:
    what = f"{chosen.source}: {chosen.workload}: what follows is about its template"
    others = [each for each in siblings if each is not chosen]
    if not others:
        return f"{what}{how}"
    what = f"{what} {chosen.template.part} ({chosen.template.path})"
    alike = _listed([each.template.part for each in others if _are_alike(each, chosen)])
    if alike:
        return f"{what}{how}; like it: {alike}"
    is_alone = not any(each.template.asks_for_gpus for each in others)
    return f"{what}, the only one that requests GPUs{how}" if is_alone else f"{what}{how}"
