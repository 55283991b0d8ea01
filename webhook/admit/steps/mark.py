"""The mark: which version of us prepared the pod, and for which profile. Bind looks only at pods that carry it."""

from collections.abc import Iterator

from webhook import __version__
from webhook.admit.edits import Annotate, Finding
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.mark import Mark

PURPOSE = "mark it"


def plan(subject: Subject) -> Iterator[Finding]:
    """One annotation."""
    yield Annotate(names.INJECTED, Mark(__version__, subject.profile).format())
