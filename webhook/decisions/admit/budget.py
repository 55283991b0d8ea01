"""The limits of one pod: work that would go beyond a limit of the configuration is refused before it is done.

A pod is counted as it will be, without our remap container, so that a second admission ends like the first.
"""

from collections.abc import Sequence

import msgspec

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


class Budget:
    """The budget of a patch: the bytes that may still be written. They bound its operations and variables too.

    Args:
        limits: The limits of the configuration.
        holder: The name of the pod in messages.
    """

    def __init__(self, limits: LimitSettings, holder: str) -> None:
        self._holder, self._most = holder, limits.reply_bytes
        self._patch_limit = (limits.reply_bytes - ENVELOPE_BYTES) // 4 * 3  # a patch is sent in base64
        self._patch_bytes = 0

    def spend(self, operation: Operation) -> None:
        """Counts the bytes of an operation.

        Raises:
            LimitError: the reply would be too long.
        """
        self._patch_bytes += len(_encoder.encode(operation)) + 1
        if self._patch_bytes > self._patch_limit:
            found = ENVELOPE_BYTES + -(-self._patch_bytes // 3) * 4
            what = "bytes of the answer to a review"
            raise LimitError(self._holder, setting="replyBytes", most=self._most, what=what, found=found)
