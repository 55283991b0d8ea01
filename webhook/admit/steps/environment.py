"""Variables that users ask for in ``gpu.topology/env.NAME`` annotations.

The pod's own annotation wins over the container's entry; a namespace's or the configuration's only fills a gap.
"""

from collections.abc import Iterator

from webhook.admit.edits import AddVariable, Finding, ReplaceVariable
from webhook.admit.request import PodContainer
from webhook.admit.subject import Subject
from webhook.model.options import Variable

PURPOSE = "set the variables of its env annotations"


def plan(subject: Subject) -> Iterator[Finding]:
    """Each variable in each GPU container."""
    for one in subject.gpu_containers:
        for variable in filter(one.takes, one.variables):
            yield from _set(one, variable)


def _set(one: PodContainer, variable: Variable) -> Iterator[Finding]:
    own = one.own_env.get(variable.name)
    if own is None:
        yield AddVariable(one, variable.name, variable.value)
    elif own.value_from is not None or own.value != variable.value:
        entries = one.container.env or []
        last = max(index for index, entry in enumerate(entries) if entry.name == variable.name)
        yield ReplaceVariable(one, last, variable.name, variable.value)
