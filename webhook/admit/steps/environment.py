"""Variables that users ask for in ``gpu.topology/env.NAME`` annotations.

The pod's own annotation wins over the container's entry; a namespace's or the configuration's only fills a gap.
"""

from collections.abc import Mapping

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model.options import Variable

PURPOSE = "set the variables of its env annotations"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Each variable in each GPU container."""
    for one in subject.gpu_containers:
        if one.variables:
            last = {entry.name: index for index, entry in enumerate(one.entries)}
            for variable in one.variables:
                _set(patch, one, variable, last)


def _set(patch: PodPatch, one: PodContainer, variable: Variable, last: Mapping[str, int]) -> None:
    """Add a variable, or replace the entry that counts: the last of several with one name."""
    own = one.own_env.get(variable.name)
    if own is None:
        patch.add_variable(one, variable.name, variable.value)
    elif own.value_from is not None or own.value != variable.value:
        patch.replace_variable(one, last[variable.name], variable.name, variable.value)
