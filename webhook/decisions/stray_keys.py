"""Keys of annotations and labels that look like ours and have no effect, and values that HAMi does not know.

Each comes with what was probably meant. The keys of other projects look like ours seldom, but they may: what is found
is a warning or a hint, and decides nothing.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from webhook.decisions.options import FORMER_NAMES, OPTION_NAMES, is_output, probably_meant
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import (
    ANNOTATION_IS_A_LABEL,
    LABEL_IS_AN_ANNOTATION,
    MORE_UNKNOWN_ANNOTATIONS,
    PERHAPS_MEANT,
    PERHAPS_MEANT_KEY,
    UNKNOWN_ANNOTATION,
    VALUE_UNKNOWN_TO_HAMI,
)
from webhook.words.printable import fitted

_NAMED = 10
"""The most keys of a kind that are named: to find what was meant takes longer than a whole review."""
_LIKENESS = 0.85
"""The least ratio of difflib by which a key of another prefix is like one of ours."""

_ANNOTATIONS = tuple(names.PREFIX + name for name in OPTION_NAMES)
_PERMISSIONS = (names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID, names.ALLOW_HOST_NETWORK, names.ALLOW_NODE_GPUS)
_LABELS = (names.INJECTION, names.GROUP, *_PERMISSIONS)
_LABELS_OF_OURS = frozenset({*_LABELS, names.PLACEMENT, names.NODE, names.NVLINK})
_KINDS = dict.fromkeys(_ANNOTATIONS, "annotation") | dict.fromkeys(_LABELS, "label")
_OF_KIND = {"annotation": frozenset(_ANNOTATIONS), "label": frozenset(_LABELS)}
_LIKENESS_OF_VALUES = 0.5
_LONGEST_VALUE = 64
_VALUES_OF_HAMI = {
    names.HAMI_SCHEDULER_POLICY: ("binpack", "spread", "topology-aware", "mutex", "numa"),
    names.HAMI_NODE_POLICY: ("binpack", "spread"),
    names.NUMA_BIND: ("true", "false"),
    names.VGPU_MODE: ("hami-core", "mig", "mps"),
}
"""The values of HAMi's annotations. HAMi takes others without an error: pkg/util/types.go, pkg/device/nvidia/device.go,
and https://github.com/Project-HAMi/HAMi/issues/2767. It says itself what is wrong with ``hami.io/numa-alignment``."""
_BOOLEANS = ("1", "0", "t", "f", "T", "F", "TRUE", "FALSE", "True", "False")
"""What Go's ParseBool reads beside true and false."""
_LONGEST = 2 * max(map(len, _KINDS))
"""A longer key is like none of ours, and the search takes longer with the length."""


def unknown_annotations(unknown: Sequence[str]) -> Iterator[Message]:
    """Yields a message for each annotation with our prefix that is no option; of many, a few are named."""
    for key in unknown[:_NAMED]:
        meant = probably_meant(key)
        shown = fitted(key)
        yield PERHAPS_MEANT.say(key=shown, meant=meant) if meant else UNKNOWN_ANNOTATION.say(key=shown)
    if unknown[_NAMED:]:
        yield MORE_UNKNOWN_ANNOTATIONS.say(count=len(unknown) - _NAMED)


def stray_keys(pod: Pod) -> Iterator[Message]:
    """Yields a message for each label of a pod, and each annotation of another prefix, that looks like ours.

    Values of HAMi's annotations that HAMi does not know are named too.
    """
    yield from _labels(pod.labels)
    yield from _near_misses("annotation", (key for key in pod.annotations if not key.startswith(names.PREFIX)))
    for key, known in _VALUES_OF_HAMI.items():
        if text := pod.annotations.get(key):
            yield from _unknown_words(key, text, known)


def _unknown_words(key: str, text: str, known: Sequence[str]) -> Iterator[Message]:
    """Yields a message for the first word of a value that HAMi does not know; the policy of cards may be a list."""
    if key == names.VGPU_MODE and any(mode in text for mode in known):
        return
    words = text[: _LONGEST_VALUE + 1].split(",") if key == names.HAMI_SCHEDULER_POLICY else [text]
    word = next((word.strip() for word in words if word.strip() not in ("", *known, *_BOOLEANS)), "")
    if not word:
        return
    spelled = word[:_LONGEST_VALUE].lower().replace("_", "-")
    close = difflib.get_close_matches(spelled, known, n=1, cutoff=_LIKENESS_OF_VALUES)
    begun = [value for value in known if value.startswith(spelled)]
    meant = next(iter(begun or close), "")
    guess = f"probably {meant} was meant" if meant else "it has no value like that"
    yield VALUE_UNKNOWN_TO_HAMI.say(key=key, value=fitted(word), guess=guess, values=", ".join(known))


def stray_keys_of_namespace(namespace: Namespace) -> Iterator[Message]:
    """Yields a message for each annotation and label of a namespace that looks like ours and has no effect."""
    yield from _labels(namespace.labels)
    ours = [key for key in namespace.annotations if key.startswith(names.PREFIX)]
    for key in ours:
        if key in _LABELS and key not in _ANNOTATIONS:
            yield ANNOTATION_IS_A_LABEL.say(key=key)
    yield from unknown_annotations([key for key in ours if _is_unknown(key)])
    yield from _near_misses("annotation", (key for key in namespace.annotations if not key.startswith(names.PREFIX)))


def _is_unknown(key: str) -> bool:
    is_variable = key.startswith(names.PREFIX + names.ENV_PREFIX)
    is_former = key.removeprefix(names.PREFIX) in FORMER_NAMES
    return not (key in _KINDS or is_former or key == names.MEASURED or is_variable or is_output(key))


def _labels(labels: Mapping[str, str]) -> Iterator[Message]:
    for key in labels:
        if key in _ANNOTATIONS and key not in _LABELS:
            yield LABEL_IS_AN_ANNOTATION.say(key=key)
    yield from _near_misses("label", (key for key in labels if key not in _LABELS_OF_OURS and key not in _KINDS))


def _near_misses(kind: str, keys: Iterable[str]) -> Iterator[Message]:
    """Yields a message for each of the first keys that are like one of ours."""
    similar = (key for key in keys if key.startswith(names.LIKE_PREFIX) and len(key) <= _LONGEST)
    for key in islice(similar, _NAMED):
        close = difflib.get_close_matches(key, _KINDS, n=1, cutoff=_LIKENESS)
        if close:
            meant = close[0]
            meant_kind = kind if meant in _OF_KIND[kind] else _KINDS[meant]
            yield PERHAPS_MEANT_KEY.say(kind=kind, key=fitted(key), meant_kind=meant_kind, meant=meant)
