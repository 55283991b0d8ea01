"""The way to a profile of peers, for a pod with signs that it exchanges GPU memory and without such a profile."""

from collections.abc import Iterator, Sequence

from webhook.decisions.options import Options, resolve_options
from webhook.decisions.request.exchange import Sign
from webhook.decisions.request.transfer_flags import LMCACHE_SERVER_CONNECTOR
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.peers import (
    EXCHANGE_WITHOUT_PEERS,
    LABELS_OF_NODE_PEERS,
    PEERS_WOULD_BE_REFUSED,
    WAY_OF_NODE_PEERS,
    WAY_OF_POD_PEERS,
    WAY_OF_SERVER,
)
from webhook.words.choices import Peers, Profile
from webhook.words.errors import FormatError
from webhook.words.outcome import WARNING_LIMIT

_LABELS = (names.ALLOW_NODE_GPUS, names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID)
IN_EXCLUSIVE, WITHOUT_PROFILE = "in profile exclusive", "without a profile for peers"


def tells_peers(pod: Pod, namespace: Namespace, defaults: Options) -> bool:
    """Returns whether the signs of a pod that is left alone are told, by its options where these can be read."""
    try:
        options = resolve_options(defaults, pod, namespace)
    except FormatError:
        options = defaults
    return options.peers is Peers.AUTO


def lacking_labels(namespace: Namespace) -> list[str]:
    """Returns the labels that a namespace lacks for profile ``node-peers``, as ``kubectl label`` takes them."""
    return [f"{label}=true" for label in _LABELS if not namespace.allows(label)]


def fitting_profile(containers: int) -> Profile:
    """Returns the profile for an exchange of a pod with so many containers with GPUs, init containers not counted."""
    return Profile.POD_PEERS if containers > 1 else Profile.NODE_PEERS


def exchange_found(
    found: Sequence[Sign], namespace: Namespace, *, containers: int, where: str, refusals: Sequence[Message] = ()
) -> Message:
    """Returns the message about the signs of a pod, at least one.

    Args:
        found: The signs.
        namespace: The namespace of the pod.
        containers: The number of its containers with GPUs, init containers not counted.
        where: :data:`IN_EXCLUSIVE` or :data:`WITHOUT_PROFILE`.
        refusals: Why the profile that fits would refuse the pod as it is.
    """
    profile = fitting_profile(containers)
    way, labels = f"{names.PROFILE}: {profile}", []
    if profile is Profile.NODE_PEERS:
        way += f" and one {names.GROUP} on all peers"
        labels = lacking_labels(namespace)
    if refusals:
        changes = "; ".join(f"{message.fix} ({message.text})" for message in refusals)
        way += f" (which refuses the pod until you change this: {changes})"
    if any(sign.connector == LMCACHE_SERVER_CONNECTOR for sign in found):
        way += f" ({WAY_OF_SERVER.text})"
    first = f"kubectl label namespace {namespace.name} {' '.join(labels)}" if labels else "nothing"
    sign = found[0]
    return EXCHANGE_WITHOUT_PEERS.say(container=sign.container, sign=sign, where=where, way=way, first=first)


def exchange_warnings(
    found: Sequence[Sign], namespace: Namespace, *, containers: int, where: str, refusals: Sequence[Message] = ()
) -> Iterator[Message]:
    """Yields the warnings of admission about the signs of a pod: what was found, and the way, each short enough."""
    if not found:
        return
    yield exchange_found(found, namespace, containers=containers, where=where)
    profile = fitting_profile(containers)
    yield WAY_OF_POD_PEERS.say() if profile is Profile.POD_PEERS else WAY_OF_NODE_PEERS.say()
    for refusal in refusals:
        yield PEERS_WOULD_BE_REFUSED.say(profile=profile, refusal=refusal.text)
    if any(sign.connector == LMCACHE_SERVER_CONNECTOR for sign in found):
        yield WAY_OF_SERVER.say()
    if profile is Profile.POD_PEERS:
        return
    labels = lacking_labels(namespace)
    while labels:
        message, used = _as_many_labels(labels, namespace.name)
        yield message
        labels = labels[used:]


def _as_many_labels(labels: Sequence[str], namespace: str) -> tuple[Message, int]:
    """Returns the message with as many of the labels as a warning holds, at least one, and their number.

    A placeholder stands for a name of the namespace that leaves no place for one label.
    """
    for used in range(len(labels), 0, -1):
        message = LABELS_OF_NODE_PEERS.say(namespace=namespace, labels=" ".join(labels[:used]))
        if len(str(message)) <= WARNING_LIMIT:
            return message, used
    return LABELS_OF_NODE_PEERS.say(namespace="NAMESPACE", labels=labels[0]), 1
