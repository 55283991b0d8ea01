"""Which of the containers that request GPUs the annotation ``gpu.topology/containers`` selects."""

from collections.abc import Sequence

from webhook.catalogue.opting import NO_SUCH_CONTAINER
from webhook.model import names
from webhook.model.errors import shorten
from webhook.model.options import Options
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import Namespace, Pod
from webhook.request.resources import ContainerRequest


def select_containers(
    containers: Sequence[ContainerRequest], options: Options, pod: Pod, namespace: Namespace
) -> frozenset[str]:
    """The names of the containers that request GPUs, without those that the option ``containers`` leaves out.

    Raises:
        Refused: the pod's own option names something that is no GPU container.
    """
    asking = frozenset([container.name for container in containers if container.request])
    selected = options.containers
    if selected is None:
        return asking
    if names.CONTAINERS in pod.annotations and not asking.issuperset(selected):
        unknown = [name for name in selected if name not in asking]
        message = NO_SUCH_CONTAINER.say(
            pod=f"{namespace.name}/{pod.display_name}",
            asking=", ".join(sorted(asking)),
            unknown=shorten(", ".join(unknown)),
        )
        raise Refused(Reason.UNKNOWN_CONTAINER, message)
    return asking.intersection(selected)
