"""The selection of the containers that request GPUs by the annotation ``gpu.topology/containers``."""

from collections.abc import Sequence

from webhook.decisions.options import Options
from webhook.decisions.request.resources import ContainerRequest
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue.opting import NO_SUCH_CONTAINER
from webhook.words.errors import shorten
from webhook.words.outcome import Reason, Refused


def select_containers(
    containers: Sequence[ContainerRequest], options: Options, pod: Pod, namespace: Namespace
) -> frozenset[str]:
    """Returns the names of the containers that request GPUs, without those that the option ``containers`` leaves out.

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
