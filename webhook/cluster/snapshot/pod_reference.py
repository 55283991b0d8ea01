"""The pod of ``explain``, as the arguments name it."""

from typing import NamedTuple

from webhook.cluster import kinds
from webhook.cluster.kinds import Collection
from webhook.words.errors import GpuTopologyError, shorten
from webhook.words.object_names import NAMESPACE, OBJECT
from webhook.words.printable import printable


class Kind(NamedTuple):
    """A kind of objects that make pods."""

    word: str
    group: str
    """The group and version of the API; empty for the pods themselves."""
    resource: str
    """The name in paths."""


POD = Kind("pod", "", "pods")
_KINDS = {
    POD: ("po", "pod", "pods"),
    Kind("deployment", "apps/v1", "deployments"): ("deploy", "deployment", "deployments"),
    Kind("replicaset", "apps/v1", "replicasets"): ("rs", "replicaset", "replicasets"),
    Kind("statefulset", "apps/v1", "statefulsets"): ("sts", "statefulset", "statefulsets"),
    Kind("daemonset", "apps/v1", "daemonsets"): ("ds", "daemonset", "daemonsets"),
    Kind("job", "batch/v1", "jobs"): ("job", "jobs"),
}
_LISTED_KINDS = ", ".join(kind.word for kind in _KINDS)
_WORDS = {word: kind for kind, words in _KINDS.items() for word in words}


class Wanted(NamedTuple):
    """A pod, or the workload that makes it."""

    name: str
    namespace: str = ""
    """The namespace; empty for the current one."""
    kind: Kind = POD


class NoNameError(GpuTopologyError):
    """An argument that names no pod."""


def parse_wanted(text: str, namespace: str) -> Wanted:
    """Read ``NAMESPACE/POD``, ``POD`` or ``KIND/NAME``, as kubectl writes kinds.

    Args:
        text: The argument.
        namespace: The option; empty if it is not given.

    Raises:
        NoNameError: the argument is none of them, or the namespace is named twice.
    """
    before, slash, name = text.rpartition("/")
    before = before.lower()  # kinds may be written Deployment or deployment, and no namespace has capitals
    kind = _WORDS.get(before, POD) if slash else POD
    in_front = before if slash and before not in _WORDS else ""
    if not OBJECT.fullmatch(name) or (in_front and not NAMESPACE.fullmatch(in_front)) or (slash and not before):
        raise NoNameError(f"expected POD, NAMESPACE/POD or KIND/NAME, found {shorten(text)}")
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise NoNameError(f"expected the name of a namespace, found {shorten(namespace)}")
    if in_front and namespace:
        raise NoNameError(_no_kind(in_front, name))
    return Wanted(name, namespace or in_front, kind)


def collection_of(front: str, namespace: str) -> Collection:
    """Return the objects that ``front`` in front of a slash means, without their contents.

    Args:
        front: A kind, or else the namespace of pods; empty for pods of ``namespace``.
        namespace: The namespace of the command.
    """
    front = front.lower()
    kind = _WORDS.get(front, POD)
    where = front if front and front not in _WORDS else namespace
    return kinds.Kind(kind.word, kind.resource, kind.group or "v1", has_namespaces=True).having(
        namespace=where, metadata_only=True
    )


def _no_kind(found: str, name: str) -> str:
    """Say that a word in front of the slash is no kind, where the namespace is given already."""
    said = f"with --namespace a kind stands before the slash ({_LISTED_KINDS}), found {shorten(found)}"
    pod = f"For a workload of another kind give the name of its pod; for pod {printable(name)} of namespace "
    return f"{said}. {pod}{printable(found)} leave --namespace away"
