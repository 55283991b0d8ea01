"""The name of a cluster, as a context of kubectl."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster and a user, by the names that kubectl uses."""

    files: tuple[Path, ...]
    """The kubeconfig files. The first file that has a name counts. Missing files are left out."""
    name: str = ""
    """The name of the context; empty for the current one."""

    @property
    def source(self) -> str:
        """The files, as messages name them."""
        return ", ".join(map(str, self.files))


Where = Context | Path | None
"""A cluster: of a context, of the current context of a file, or, for None, the one in which this runs as a pod."""
