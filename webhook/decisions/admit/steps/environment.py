"""Variables that users ask for in ``gpu.topology/env.NAME`` annotations.

The pod's own annotation wins over the container's entry; a namespace's or the configuration's only fills a gap.
"""

from collections.abc import Mapping

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.options import Variable

PURPOSE = "set the variables of its env annotations"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets each variable in each GPU container."""
    for container in subject.gpu_containers:
        if container.variables:
            last = {entry.name: index for index, entry in enumerate(container.entries)}
            for variable in container.variables:
                _set(patch, container, variable, last)


def _set(patch: PodPatch, container: PodContainer, variable: Variable, last: Mapping[str, int]) -> None:
    """Adds a variable, or replaces the entry that counts: the last of several with one name."""
    own = container.own_env.get(variable.name)
    if own is None:
        patch.add_variable(container, variable.name, variable.value)
    elif not own.is_literal(variable.value):
        patch.replace_variable(container, last[variable.name], variable.name, variable.value)
