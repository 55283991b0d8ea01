"""The errors of this project. Each says where it is, what was expected, what was found and what to do."""

from webhook.words.printable import printable

FOUND_LIMIT = 60


class GpuTopologyError(Exception):
    """The root of every error that this project raises on purpose; its text is meant for the user."""


class NoNamespace(GpuTopologyError):
    """A namespace that was named does not exist.

    Args:
        name: The name of the namespace.
        where: The place where it was looked for.
    """

    def __init__(self, name: str, where: str = "this cluster") -> None:
        super().__init__(f"there is no namespace {name} in {where}")


class FormatError(GpuTopologyError):
    """A written value does not parse.

    Args:
        source: The place of the value, for example ``annotation gpu.topology/shm-size on pod team-a/train``.
        expected: A description of a right value, with an example.
        found: The value; long values are cut in the text.
        fix: The advice what to do about it, if it is not obvious.
    """

    def __init__(self, source: str, *, expected: str, found: object, fix: str = "") -> None:
        self.source, self.expected, self.found, self.fix = source, expected, found, fix
        super().__init__(f"{source}: expected {expected}, found {shorten(found)}" + (f". {fix}" if fix else ""))


class LimitError(FormatError):
    """A readable value is more than the configuration allows.

    Args:
        source: The place of the value, or its owner.
        setting: The field of the section ``limits`` of the configuration.
        most: The value of that field.
        what: The counted things, in the plural.
        found: Their number, as far as they were counted.
    """

    def __init__(self, source: str, *, setting: str, most: int, what: str, found: int) -> None:
        super().__init__(source, expected=f"at most {most} {what} (limits.{setting})", found=str(found))


class ManifestError(GpuTopologyError):
    """A manifest or state file cannot be read as what it should be."""


class PodsUnreadable(GpuTopologyError):
    """Pods cannot be read at the moment; the text says why."""


class ClaimsUnreadable(GpuTopologyError):
    """ResourceClaims or templates cannot be read at the moment; the text says why."""


class StateUnknown(GpuTopologyError):
    """A necessary fact about the cluster is not known yet, or cannot be looked up; the text says which."""


class TooManyNamespaceReads(StateUnknown):
    """More namespaces are asked for than may be read in a period."""


class ConfigError(GpuTopologyError):
    """The configuration is not usable."""


def shorten(value: object) -> str:
    """Returns a quoted, printable form of ``value`` that fits into a message (:mod:`webhook.words.printable`)."""
    text = value if isinstance(value, str) else _represented(value)
    shown = printable(text[: FOUND_LIMIT + 1])
    return f'"{shown}"' if len(shown) <= FOUND_LIMIT else f'"{shown[:FOUND_LIMIT]}..." ({len(text)} characters)'


def _represented(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:  # JSON that the parser just about took
        return f"a {type(value).__name__} that is nested too deep"
