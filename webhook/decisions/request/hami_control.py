"""HAMi's control of a container: the library that its device plugin preloads."""

from collections.abc import Iterable

from webhook.objects.pod import EnvVar
from webhook.words import names

# The texts that Go's strconv.ParseBool reads as true.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


def disables_control(env: Iterable[EnvVar]) -> bool:
    """Returns whether the device plugin finds ``CUDA_DISABLE_CONTROL`` true: it looks at every entry of the name."""
    return any(variable.name == names.ENV_DISABLE_CONTROL and variable.value in _TRUE for variable in env)
