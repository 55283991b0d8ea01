"""Findings about namespaces: options that they are not allowed, and labels and annotations without effect."""

from collections.abc import Iterator

from webhook.cluster.snapshot.model import Snapshot
from webhook.decisions.admit.permissions import HOST_NAMESPACE_LABELS
from webhook.decisions.options import Options, resolve_options
from webhook.decisions.stray_keys import stray_keys_of_namespace
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, error, hint, warning
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.cluster_findings import (
    NAMESPACE_LABEL_WITHOUT_EFFECT,
    NAMESPACE_NOT_ALLOWED,
    NAMESPACE_OPTION_UNREADABLE,
)
from webhook.words.choices import Isolation, Profile
from webhook.words.errors import FormatError
from webhook.words.listing import listed
from webhook.words.printable import fitted

_PERMISSIONS = (*HOST_NAMESPACE_LABELS.values(), names.ALLOW_NODE_GPUS)
_OFF = {names.INJECTION: ("enabled", "disabled"), **dict.fromkeys(_PERMISSIONS, ("true", "false"))}
"""The labels that are judged, each with the value that turns it on and the value that turns it off."""


def namespaces(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields the findings about each namespace that was read."""
    for namespace in snapshot.namespaces.values():
        holder = Holder("Namespace", "", namespace.name)
        yield from _labels(namespace, holder)
        for message in stray_keys_of_namespace(namespace):
            yield hint(holder, message)
        if namespace.injection_enabled:
            yield from _options(snapshot, namespace, holder)


def _labels(namespace: Namespace, holder: Holder) -> Iterator[Diagnosis]:
    for label, values in _OFF.items():
        value = namespace.labels.get(label)
        if value is not None and value not in values:
            shown = fitted(value) or '""'
            said = NAMESPACE_LABEL_WITHOUT_EFFECT.say(label=label, value=shown, wanted=values[0])
            yield warning(holder, said)


def _options(snapshot: Snapshot, namespace: Namespace, holder: Holder) -> Iterator[Diagnosis]:
    """Yields findings about the options that the annotations of a namespace set for all of its pods."""
    try:
        options = resolve_options(snapshot.policy.defaults, Pod(), namespace)
    except FormatError as problem:
        yield error(holder, NAMESPACE_OPTION_UNREADABLE.say(problem=fitted(str(problem))))
        return
    if not namespace.annotations:
        return
    missing = {label: what for label, what in needed_labels(options).items() if not namespace.allows(label)}
    if missing:
        labels = ", ".join(f'{label}: "true"' for label in missing)
        yield error(holder, NAMESPACE_NOT_ALLOWED.say(asked=listed(dict.fromkeys(missing.values())), labels=labels))


def needed_labels(options: Options) -> dict[str, str]:
    """Returns the labels that pods without options of their own need, and the option that needs each label."""
    needs = {}
    fields = {"hostIPC": options.host_ipc, "hostPID": options.host_pid, "hostNetwork": options.host_network}
    of_host = options.profile is Profile.NODE_PEERS and options.isolation is Isolation.HOST
    for field, asked in fields.items():
        by_profile = of_host and field != "hostNetwork" and asked is not False
        if asked or by_profile:
            needs[HOST_NAMESPACE_LABELS[field]] = f"profile {options.profile}" if by_profile and not asked else field
    if options.profile is Profile.NODE_PEERS:
        needs[names.ALLOW_NODE_GPUS] = f"profile {options.profile}"
    return needs
