"""How a cluster is named."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster and a user, named as kubectl names them."""

    files: tuple[Path, ...]
    """Kubeconfig files. Of several, the first that has a name counts, and those that do not exist are left out."""
    name: str = ""
    """Of the context; empty for the current one."""

    @property
    def source(self) -> str:
        """How messages call the files."""
        return ", ".join(map(str, self.files))


Where = Context | Path | None
"""Which cluster: that of a context, or of the current context of a file; None: the one in which this runs as a pod."""
