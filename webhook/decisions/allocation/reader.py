"""What a scheduler gave to a pod, from the pod's annotations."""

from collections.abc import Mapping

from webhook.decisions.allocation import claim, hami, koordinator, volcano
from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.limit import DEFAULT_LIMITS, AllocationLimits
from webhook.decisions.allocation.model import Allocation
from webhook.words import names
from webhook.words.errors import FormatError

DIALECTS: tuple[Dialect, ...] = (hami.DIALECT, volcano.DIALECT, koordinator.DIALECT, claim.DIALECT)
_BY_FAMILY = {dialect.family: dialect for dialect in DIALECTS}


def dialect_of(family: str) -> Dialect:
    """How the scheduler of a family of resource names writes.

    Raises:
        FormatError: there is no such family.
    """
    found = _BY_FAMILY.get(family)
    if found is None:
        expected = " or ".join(_BY_FAMILY)
        raise FormatError("the family of resource names", expected=expected, found=family)
    return found


def read_allocation(
    annotations: Mapping[str, str], *, family: str, holder: str, limits: AllocationLimits = DEFAULT_LIMITS
) -> Allocation:
    """What the scheduler of ``family`` gave; an empty Allocation if it gave nothing yet, or no device.

    Args:
        annotations: Of the pod and its Binding.
        family: ``hami``, ``volcano``, ``koordinator`` or ``claim``.
        holder: How messages call the bearer of the annotations, for example ``pod team-a/train``.
        limits: How much it may hold.

    Raises:
        FormatError: an annotation cannot be read, or there is no such family.
        LimitError: an annotation holds too much.
    """
    dialect = dialect_of(family)
    text = annotations.get(dialect.key, "")
    if not text.strip(";"):
        return Allocation()  # also what the device plugin leaves of a list that it has served
    allocation = dialect.parse(text, f"annotation {dialect.key} on {holder}", limits)
    if not any(allocation.segments):
        return Allocation()
    instances = annotations.get(names.HAMI_MIG_ALLOCATIONS)
    if dialect is hami.DIALECT and instances:
        where = f"annotation {names.HAMI_MIG_ALLOCATIONS} on {holder}"
        return hami.with_mig_instances(allocation, instances, where, limits)
    return allocation


def allocated_node(annotations: Mapping[str, str], *, family: str) -> str | None:
    """The node for which the allocation was made; None if the scheduler names none.

    Raises:
        FormatError: there is no such family.
    """
    key = dialect_of(family).node_key
    return (annotations.get(key) or None) if key else None
