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
    """Build the archives of these platforms, and the manifest that names them."""
    known = {platform.name: platform for platform in PLATFORMS}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"expected some of {', '.join(known)}, found {', '.join(unknown)}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    archives = {known[name]: OUTPUT / archive_name(known[name]) for name in names or ["linux-amd64"]}
    with tempfile.TemporaryDirectory() as directory:
        wheel = build_wheel(Path(directory))
        for platform, archive in archives.items():
            work = Path(directory, platform.name)
            work.mkdir()
            build_archive(platform, wheel, work, archive)
            print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size / 2**20:.1f} MiB")
    path = OUTPUT / f"{NAME}.yaml"
    path.write_text(yaml.safe_dump(manifest(archives), sort_keys=False, width=120), encoding="utf-8")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
