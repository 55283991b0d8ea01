"""What is packed for krew."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.krew.archive import HERE, PLUGIN, forget_source, pack, share
from tests.krew.manifest import archive_name, manifest
from tests.krew.platforms import PLATFORMS, PYTHONS
from webhook import __version__

OURS = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_packages_that_are_the_same_for_all_versions_are_packed_once(tmp_path: Path) -> None:
    trees = [tmp_path / name for name in ("cp311", "cp312")]
    for number, tree in enumerate(trees):
        write(tree / "pure" / "below" / "a.py", "same")
        write(tree / "compiled" / "__init__.py", "same")
        write(tree / "compiled" / f"_c{number}.so", "")
        write(tree / "single.py", "same")
        write(tree / "other.py", str(number))
    share(trees, tmp_path / "lib")
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == ["pure", "single.py"]
    assert [sorted(path.name for path in tree.iterdir()) for tree in trees] == [["compiled", "other.py"]] * 2


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    archives: list[Path] = []
    for name in ("one", "two"):
        write(tmp_path / name / PLUGIN, "#!/bin/sh\n")
        os.utime(write(tmp_path / name / "lib" / "a.py", "a"), (len(archives), len(archives)))
        write(tmp_path / name / "lib" / "__pycache__" / "a.pyc", name)
        archives.append(tmp_path / f"{name}.tar.gz")
        pack(tmp_path / name, archives[-1], executable=PLUGIN)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as archive:
        assert {member.name: member.mode for member in archive} == {PLUGIN: 0o755, "lib/a.py": 0o644}


def test_an_archive_does_not_say_where_our_wheel_was_built(tmp_path: Path) -> None:
    ours, other = tmp_path / "a-1.dist-info", tmp_path / "b-1.dist-info"
    write(ours / "direct_url.json", '{"url": "file:///home/somebody/a-1.whl"}')
    record = write(ours / "RECORD", "a-1.dist-info/METADATA,,\na-1.dist-info/direct_url.json,sha256=x,40\na.py,,\n")
    kept = write(other / "RECORD", "b.py,,\n")
    forget_source(tmp_path)
    assert record.read_text() == "a-1.dist-info/METADATA,,\na.py,,\n"
    assert kept.read_text() == "b.py,,\n"
    assert not (ours / "direct_url.json").exists()


def test_the_manifest_names_an_archive_for_each_platform_with_its_checksum(tmp_path: Path) -> None:
    archives = {platform: write(tmp_path / archive_name(platform), platform.name) for platform in PLATFORMS}
    plugin = manifest(archives)
    assert (plugin["kind"], plugin["metadata"]["name"], plugin["spec"]["version"]) == (
        "Plugin",
        "gpu-topology",
        f"v{__version__}",
    )
    for platform, found in zip(PLATFORMS, plugin["spec"]["platforms"], strict=True):
        assert found["selector"]["matchLabels"] == {"os": platform.os, "arch": platform.arch}
        assert found["uri"].endswith(f"/releases/download/v{__version__}/kubectl-gpu_topology-{platform.name}.tar.gz")
        assert found["sha256"] == hashlib.sha256(platform.name.encode()).hexdigest()
        assert found["bin"] == PLUGIN


def launched(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The launcher behind a link, as krew makes one."""
    write(directory / "store" / PLUGIN, (HERE / "launcher.sh").read_text()).chmod(0o755)
    write(directory / "store" / "main.py", (HERE / "launcher.py").read_text())
    write(directory / "store" / "lib" / "shared.py", "")
    write(directory / "store" / "lib" / "webhook" / "__init__.py", "")
    entry = "import sys\nimport shared, compiled\ndef plugin(): print(sys.argv[1:])\n"
    write(directory / "store" / "lib" / "webhook" / "entry.py", entry)
    link = directory / PLUGIN
    link.symlink_to(directory / "store" / PLUGIN)
    settings = {"PATH": "/usr/bin:/bin", "GPU_TOPOLOGY_PYTHON": sys.executable} | environment
    return subprocess.run([str(link), *arguments], env=settings, capture_output=True, text=True, check=False)


@pytest.mark.skipif(
    f"{sys.version_info[0]}.{sys.version_info[1]}" not in PYTHONS, reason="no archive is for this Python"
)
def test_the_launcher_finds_the_libraries_for_its_python_behind_a_link(tmp_path: Path) -> None:
    write(tmp_path / "store" / OURS / "compiled.py", "")
    done = launched(tmp_path, "explain", "a b", "*")
    assert (done.returncode, done.stdout, done.stderr) == (0, "['explain', 'a b', '*']\n", "")


def test_without_a_python_that_it_has_libraries_for_the_launcher_says_what_it_needs(tmp_path: Path) -> None:
    done = launched(tmp_path, "explain")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "kubectl gpu-topology: expected Python 3.11, 3.12 or 3.13 as python3 in PATH, found none"
    )
