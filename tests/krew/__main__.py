"""``python -m tests.krew [PLATFORM ...]``: archives and manifest in ``dist/krew/``; linux-amd64 if none is named."""

import sys
import tempfile
from pathlib import Path

import yaml

from tests.krew.archive import ROOT, build_archive, build_wheel
from tests.krew.manifest import NAME, archive_name, manifest
from tests.krew.platforms import PLATFORMS

OUTPUT = ROOT / "dist" / "krew"


def main(names: list[str]) -> None:
    """Build the archives of these platforms of a wheel of this checkout, and the manifest that names them."""
    with tempfile.TemporaryDirectory() as directory:
        written = build(names or ["linux-amd64"], build_wheel(Path(directory)), OUTPUT)
    for path in written:
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 2**20:.1f} MiB")


def build(names: list[str], wheel: Path, output: Path) -> list[Path]:
    """Write the archives of these platforms, and the manifest that names them; return their paths."""
    known = {platform.name: platform for platform in PLATFORMS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"expected some of {', '.join(known)}, found {', '.join(unknown)}")
    output.mkdir(parents=True, exist_ok=True)
    archives = {known[name]: output / archive_name(known[name]) for name in names}
    with tempfile.TemporaryDirectory() as directory:
        for platform, archive in archives.items():
            work = Path(directory, platform.name)
            work.mkdir()
            build_archive(platform, wheel, work, archive)
    text = yaml.safe_dump(manifest(archives), sort_keys=False, width=120)
    named = output / f"{NAME}.yaml"
    named.write_text(text, encoding="utf-8")
    return [*archives.values(), named]


if __name__ == "__main__":
    main(sys.argv[1:])
