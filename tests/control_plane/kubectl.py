"""kubectl as a person uses it."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kubectl:
    """One person's kubectl.

    Attributes:
        home: Takes what it keeps of the API server's answers.
        plugins: A directory with plugins.
    """

    executable: Path
    kubeconfig: Path
    home: Path
    plugins: Path | None = None

    def __call__(self, *arguments: str, manifest: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """What it says to these arguments, with the manifest as its standard input."""
        return subprocess.run(
            [self.executable, *arguments],
            input=json.dumps(manifest),
            env={"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)} | self._path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @property
    def _path(self) -> dict[str, str]:
        return {"PATH": f"{self.plugins}:/usr/bin:/bin"} if self.plugins else {}
