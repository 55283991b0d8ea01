"""Variables that users ask for in ``gpu.topology/env.NAME`` annotations.

The pod's own annotation wins over the container's entry; a namespace's or the configuration's only fills a gap.
"""

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model.options import Variable

PURPOSE = "set the variables of its env annotations"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Each variable in each GPU container."""
    for one in subject.gpu_containers:
        for variable in one.variables:
            _set(patch, one, variable)


def _set(patch: PodPatch, one: PodContainer, variable: Variable) -> None:
    own = one.own_env.get(variable.name)
    if own is None:
        patch.add_variable(one, variable.name, variable.value)
    elif own.value_from is not None or own.value != variable.value:
        entries = one.entries
        last = max(index for index, entry in enumerate(entries) if entry.name == variable.name)
        patch.replace_variable(one, last, variable.name, variable.value)
