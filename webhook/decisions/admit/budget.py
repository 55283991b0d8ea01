"""The limits of one pod: work that would go beyond a limit of the configuration is refused before it is done.

A pod is counted as it will be, without our remap container, so that a second admission ends like the first.
"""

from collections.abc import Sequence

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.claims.pod import is_remap_container
from webhook.decisions.configuration import LEAST_REPLY, LimitSettings
from webhook.decisions.options import Options
from webhook.decisions.request.resources import ContainerRequest
from webhook.words import names
from webhook.words.errors import LimitError
from webhook.words.patch import Operation

ENVELOPE_BYTES = LEAST_REPLY // 2
"""The room in a reply for all but its patch: 30 warnings of 119 characters, the uid, and names."""

_encoder = msgspec.json.Encoder()


def check_counts(containers: Sequence[ContainerRequest], options: Options, limits: LimitSettings, holder: str) -> None:
    """Raises LimitError if a pod has too many containers, or too many variables are asked for by annotations.

    Raises:
        MalformedPod: the command of a container with the name of the remap container is no list of texts.
    """
    own = any(is_remap_container(container.spec) for container in containers)
    found = len(containers) - own
    if found > limits.containers:
        raise LimitError(holder, setting="containers", most=limits.containers, what="containers", found=found)
    asked = len(options.env)
    if asked > limits.env_annotations:
        most, what = limits.env_annotations, f"variables of {names.PREFIX}{names.ENV_PREFIX}NAME annotations"
        raise LimitError(holder, setting="envAnnotations", most=most, what=what, found=asked)


def check_variables(found: int, limits: LimitSettings, holder: str) -> None:
    """Raises LimitError if ``found`` variables of containers are too many."""
    most = limits.variables
    if found > most:
        raise LimitError(holder, setting="variables", most=most, what="variables", found=found)


def count_variables(containers: Sequence[PodContainer], remap_container: PodContainer | None) -> int:
    """Returns how many variables a pod has, without those of our container."""
    return sum(len(container.entries) for container in containers if container is not remap_container)


class Budget:
    """The budget of a patch: the variables, operations and bytes that may still be written.

    Args:
        limits: The limits of the configuration.
        holder: The name of the pod in messages.
        variables: The number of variables that the pod has.

    Raises:
        LimitError: the pod has too many variables.
    """

    def __init__(self, limits: LimitSettings, holder: str, variables: int = 0) -> None:
        self._limits = limits
        self._holder = holder
        self._patch_limit = (limits.reply_bytes - ENVELOPE_BYTES) // 4 * 3  # a patch is sent in base64
        self._variables = self._operations = self._patch_bytes = 0
        self.add_variables(variables)

    def add_variables(self, count: int = 1) -> None:
        """Counts variables of containers.

        Raises:
            LimitError: there are too many.
        """
        self._variables += count
        check_variables(self._variables, self._limits, self._holder)

    def spend(self, operation: Operation) -> None:
        """Counts an operation and its bytes.

        Raises:
            LimitError: there are too many operations, or the reply would be too long.
        """
        self._operations += 1
        most = self._limits.operations
        if self._operations > most:
            what = "operations of the patch"
            raise LimitError(self._holder, setting="operations", most=most, what=what, found=self._operations)
        self._patch_bytes += len(_encoder.encode(operation)) + 1
        if self._patch_bytes > self._patch_limit:
            most, found = self._limits.reply_bytes, ENVELOPE_BYTES + -(-self._patch_bytes // 3) * 4
            what = "bytes of the answer to a review"
            raise LimitError(self._holder, setting="replyBytes", most=most, what=what, found=found)
