"""Options that a pod carries and that admission will not keep, because it leaves the pod alone.

The annotations of the pod itself count. What a namespace or the configuration asks of its pods is meant for those that
are injected, and a slice or a pod without GPUs in such a namespace is no mistake.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import FORMER_NAMES, OPTION_NAMES, Options, parse_option
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import OPTION_NOT_KEPT, OPTIONS_WITHOUT_EFFECT, WOULD_NOT_KEEP
from webhook.words.choices import OnViolation, Policy, Profile
from webhook.words.errors import FormatError
from webhook.words.outcome import ENTRIES, Reason, Refused
from webhook.words.printable import fitted

LINK_REQUIREMENTS = ("require-nvlink", "min-bandwidth", "policy")
"""Options that the GPUs of the pod itself have to meet."""
REQUIREMENTS = (*LINK_REQUIREMENTS, "group-size", "max-nodes", "min-gpus-per-node", "min-network-bandwidth")
"""Options with which a pod would rather not run than be served otherwise, if it denies what violates them."""

_LOSE_NOTHING = frozenset({"inject", "expect-nvlink", "move", "on-violation", "place"})
"""Options that ask for nothing which a pod loses when it is left alone."""
_PREFERENCES = (Policy.BEST_EFFORT, Policy.SPREAD)
_DEFAULTS = Options()
_ON_VIOLATION = names.PREFIX + "on-violation"
_NAMED = 3
"""The most options without effect that are named in one message."""
_TOLERATED = frozenset({Reason.OPTED_OUT, Reason.MIRROR_POD, Reason.NAMESPACE_UNKNOWN, Reason.NAMESPACE_NOT_ENABLED})
"""Reasons for which no pod is refused: the user's own word, a pod that the kubelet runs whatever the API server says,
and namespaces of which nothing, or nothing else, is decided."""


class Unkept(msgspec.Struct, frozen=True, gc=False):
    """The options of a pod that are not kept."""

    requirements: tuple[str, ...]
    """The names of its requirements."""
    others: tuple[str, ...]
    """The names of its other options, ``env.NAME`` among them."""
    denies: bool
    """Whether the pod is refused rather than served otherwise than it requires."""

    def messages(self, why: Message) -> Iterator[Message]:
        """Yields a message for each requirement, and one for all other options.

        Args:
            why: The reason why the pod is left alone.
        """
        for name in self.requirements:
            yield OPTION_NOT_KEPT.say(key=names.PREFIX + name, why=why.text, fix=why.fix)
        if self.others:
            named = ", ".join(map(fitted, self.others[:_NAMED]))
            more = f" and {len(self.others) - _NAMED} more" if self.others[_NAMED:] else ""
            yield OPTIONS_WITHOUT_EFFECT.say(options=named + more, why=why.text)


def unkept_options(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> Unkept | None:
    """Returns the options that the pod's own annotations set to something; ``None`` if there are none.

    A value that does not parse is a wish all the same.

    Args:
        pod: A pod that is left alone.
        namespace: Its namespace, which may say what a violation leads to.
        policy: The configuration, with the default of that.
    """
    annotations = pod.annotations
    own = [key[len(names.PREFIX) :] for key in annotations if key.startswith(names.PREFIX)]
    if not own:
        return None
    requirements = tuple([name for name in REQUIREMENTS if _asks(name, annotations, _is_required)])
    others = tuple([name for name in own if name not in requirements and _is_other(name, annotations)])
    if not (requirements or others):
        return None
    return Unkept(requirements, others, bool(requirements) and _denies(annotations, namespace, policy))


def required_options(options: Options) -> tuple[str, ...]:
    """Returns the names of the requirements of a pod with these options."""
    return tuple([name for name in REQUIREMENTS if _is_required(name, getattr(options, _field(name)))])


def unkept_by(pod: Pod, namespace: Namespace, policy: AdmitPolicy, reason: Reason) -> Iterator[Message]:
    """Yields what is to be told of the options of a pod that is left alone for this reason.

    Raises:
        Refused: the pod denies what violates its requirements.
    """
    unkept = unkept_options(pod, namespace, policy)
    if unkept is None:
        return
    why = ENTRIES[reason].say()
    if unkept.denies and reason not in _TOLERATED:
        raise would_not_keep(unkept.requirements, f"{namespace.name}/{pod.display_name}", why)
    yield from unkept.messages(why)


def would_not_keep(requirements: Sequence[str], pod: str, why: Message) -> Refused:
    """Returns the refusal of a pod with requirements that would not be kept.

    Args:
        requirements: The names of the options.
        pod: The name of the pod in messages.
        why: The reason why they would not be kept.
    """
    keys = ", ".join(names.PREFIX + name for name in requirements)
    return Refused(Reason.REQUIREMENT_NOT_KEPT, WOULD_NOT_KEEP.say(pod=pod, keys=keys, why=why.text, fix=why.fix))


def _is_other(name: str, annotations: Mapping[str, str]) -> bool:
    if name.startswith(names.ENV_PREFIX):
        return True
    is_option = name in OPTION_NAMES or name in FORMER_NAMES
    return is_option and name not in _LOSE_NOTHING and _asks(name, annotations, _is_set)


def _asks(name: str, annotations: Mapping[str, str], is_asked: Callable[[str, object], bool]) -> bool:
    """Returns whether there is an annotation of this option that asks for something, or that does not parse."""
    text = annotations.get(names.PREFIX + name)
    if text is None:
        return False
    try:
        return is_asked(name, parse_option(name, text, source=""))
    except FormatError:
        return True


def _is_set(name: str, value: object) -> bool:
    return value != getattr(_DEFAULTS, _field(name)) and value is not Profile.OBSERVE


def _is_required(name: str, value: object) -> bool:
    return _is_set(name, value) and value not in _PREFERENCES


def _field(name: str) -> str:
    return FORMER_NAMES.get(name, name).replace("-", "_")


def _denies(annotations: Mapping[str, str], namespace: Namespace, policy: AdmitPolicy) -> bool:
    text = annotations.get(_ON_VIOLATION, namespace.annotations.get(_ON_VIOLATION))
    return (policy.defaults.on_violation if text is None else text) == OnViolation.DENY
