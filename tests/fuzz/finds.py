"""What was found: inputs that break a law, one for each way of breaking it."""

import hashlib
import traceback
from dataclasses import dataclass, field
from pathlib import Path


def place_of(error: BaseException) -> str:
    """Where something failed, and how: what two finds have in common that are one."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "nowhere"
    return f"{type(error).__name__} at {where}"


@dataclass
class Finds:
    """Writes the shortest input of each way to fail into a folder.

    Args:
        folder: Which is made when there is something to write.
    """

    folder: Path
    counts: dict[str, int] = field(default_factory=dict)
    """How often something failed, by its place."""
    _shortest: dict[str, int] = field(default_factory=dict)

    def add(self, data: bytes, error: BaseException) -> Path | None:
        """Where the input was written; ``None`` if a shorter one of its kind is there."""
        place = place_of(error)
        self.counts[place] = self.counts.get(place, 0) + 1
        if len(data) >= self._shortest.get(place, len(data) + 1):
            return None
        self._shortest[place] = len(data)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"find-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        path.write_bytes(data)
        report = "".join(traceback.format_exception(error))
        path.with_suffix(".txt").write_text(f"{place}\n\n{report}", encoding="utf-8", errors="backslashreplace")
        return path
