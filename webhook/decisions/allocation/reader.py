"""The reader of a pod's allocation, from the pod's annotations."""

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
    """Returns the dialect of the scheduler of a family of resource names.

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
    """Returns the allocation by the scheduler of ``family``; an empty one if it gave nothing yet, or no device.

    Args:
        annotations: The annotations of the pod and its Binding.
        family: ``hami``, ``volcano``, ``koordinator`` or ``claim``.
        holder: The name of the annotated object in messages, for example ``pod team-a/train``.
        limits: The limits of the allocation.

    Raises:
        FormatError: an annotation cannot be read, or there is no such family.
        LimitError: an annotation holds too much.
    """
    dialect = dialect_of(family)
    text = annotations.get(dialect.key, "")
    if not text.strip(";"):
        return Allocation()  # the device plugin leaves only semicolons of a list that it has served
    allocation = dialect.parse(text, f"annotation {dialect.key} on {holder}", limits)
    if not any(allocation.segments):
        return Allocation()
    instances = annotations.get(names.HAMI_MIG_ALLOCATIONS)
    if dialect is hami.DIALECT and instances:
        where = f"annotation {names.HAMI_MIG_ALLOCATIONS} on {holder}"
        return hami.with_mig_instances(allocation, instances, where, limits)
    return allocation


def allocated_node(annotations: Mapping[str, str], *, family: str) -> str | None:
    """Returns the node for which the allocation was made; None if the scheduler names none.

    Raises:
        FormatError: there is no such family.
    """
    key = dialect_of(family).node_key
    return (annotations.get(key) or None) if key else None
