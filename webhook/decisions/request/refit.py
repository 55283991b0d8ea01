"""HAMi's NUMA refit: a pod's wish that its allocation may change after the Binding.

HAMi after 2.10.0 can move an allocation when the kubelet admits the pod. Where the Topology Manager does not offer the
device plugin all cards that were allocated, the plugin asks the scheduler, which writes another allocation over
``hami.io/vgpu-devices-allocated`` and ``hami.io/vgpu-devices-to-allocate``. Only pods with the annotation
``hami.io/numa-alignment`` take part, and only where ``devicePlugin.numaRefit.enabled`` is set. The webhook has resolved
the first allocation by then. Source: HAMi pull requests 2729 and 2731 (pkg/util/numa_alignment.go,
pkg/scheduler/numa_refit_handler.go).
"""

from collections.abc import Mapping

from webhook.words import names
from webhook.words.choices import Alignment

_LONGEST = 64
"""The most characters of a value that is looked at."""


def alignment(annotations: Mapping[str, str]) -> Alignment | None:
    """Returns what the pod wants; None if HAMi never moves its allocation, or would refuse the pod for the value."""
    text = annotations.get(names.HAMI_NUMA_ALIGNMENT, "")
    word = text.strip().lower() if len(text) <= _LONGEST else ""
    return next((each for each in Alignment if word == each), None)
