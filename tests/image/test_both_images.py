"""What holds for both images: who can change what is in them, what they have, and how large they are."""

import stat
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.figures import ShowFigures
from tests.image.build import Image, Images
from tests.image.container import Container

pytestmark = pytest.mark.image

HOME = "opt/gpu-topology"
PROJECT = "gpu-topology-webhook"
LEFT_OUT = "kubernetes"
"""The official client, which reads kubeconfigs: a pod of the cluster has none."""


@pytest.fixture(params=["webhook", "remap"])
def either(request: pytest.FixtureRequest, images: Images) -> Image:
    found: Image = getattr(images, request.param)
    return found


def test_nothing_in_it_installs_or_compiles_programs(either: Image) -> None:
    tools = {"pip", "pip3", "cc", "gcc", "c++", "g++", "ld", "make", "git", "curl", "wget", "uv"}
    folders = [either.root / name for name in ("usr/bin", "usr/sbin", "usr/local/bin", f"{HOME}/bin")]
    assert not tools & {path.name for folder in folders for path in folder.iterdir()}
    modules = ("pip", "setuptools", "ensurepip", "wheel")
    program = f"import importlib.util; print(*[name for name in {modules} if importlib.util.find_spec(name)])"
    assert Container(either).run(["python", "-c", program]).stdout == "\n"
    assert [path.name for path in (either.root / HOME / "bin").iterdir() if not path.is_symlink()] == ["gpu-topology"]


def test_only_root_can_change_it(either: Image) -> None:
    for path in (either.root / HOME).rglob("*"):
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (0, 0), path
        assert path.is_symlink() or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID), path
        assert path.is_symlink() or found.st_mode & stat.S_IROTH, path


def test_each_module_has_bytecode_that_python_takes_without_looking_at_the_source(either: Image) -> None:
    sources = [path for path in packages(either).rglob("*.py") if "tests" not in path.parts]
    assert len(sources) > 200
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", source  # PEP 552: by hash, and that not checked
    said = Container(either).run(["python", "-v", "-c", "import webhook.entry"]).stderr
    assert "code object from '/opt/gpu-topology/lib/python3.11/site-packages/webhook/__pycache__/entry" in said


def test_every_file_of_every_package_is_there_with_its_licence(either: Image) -> None:
    for package in distributions(path=[str(packages(either))]):
        files = [file for file in package.files or () if file.parts[-2:-1] != ("bin",)]  # their programs are left out
        assert files
        assert [file for file in files if not Path(str(file.locate())).exists()] == [], package.name


def test_the_webhook_has_the_packages_that_its_metadata_asks_for_but_the_official_client(images: Images) -> None:
    assert set(installed(images.webhook)) == needed(images.webhook)
    assert LEFT_OUT not in installed(images.webhook)


def test_remap_has_the_bindings_of_nvml_and_no_other_package(images: Images) -> None:
    assert set(installed(images.remap)) == {PROJECT, "nvidia-ml-py"}
    loadable = "aiohttp cryptography fastapi httpx kubernetes msgspec pydantic rich typer urllib3 uvicorn uvloop yaml"
    program = f"import importlib.util; print(*[one for one in {loadable.split()} if importlib.util.find_spec(one)])"
    assert Container(images.remap).run(["python", "-c", program]).stdout == "\n"


def test_they_are_small(images: Images, show_figures: ShowFigures) -> None:
    webhook, remap = mebibytes(images.webhook.root), mebibytes(images.remap.root)
    with show_figures():
        print(
            f"images, MiB: webhook {webhook:.1f}, of which ours {mebibytes(images.webhook.root / HOME):.1f}; ", end=""
        )
        print(f"remap {remap:.1f}, of which ours {mebibytes(images.remap.root / HOME):.1f}")
    assert webhook <= 195
    assert remap <= 125


def packages(image: Image) -> Path:
    return image.root / HOME / "lib" / "python3.11" / "site-packages"


def installed(image: Image) -> dict[str, Distribution]:
    return {canonicalize_name(one.name): one for one in distributions(path=[str(packages(image))])}


def needed(image: Image) -> set[str]:
    """Names of the project and of what it asks for, directly or not, without what only the official client asks for."""
    found = installed(image)
    seen: set[str] = set()
    names = [PROJECT]
    while names:
        name = names.pop()
        if name not in seen and name != LEFT_OUT:
            seen.add(name)
            names.extend(_asked_by(found[name]))
    return seen


def _asked_by(package: Distribution) -> Iterator[str]:
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": "", "python_version": "3.11"}):
            yield canonicalize_name(requirement.name)


def mebibytes(directory: Path) -> float:
    found = [path.lstat() for path in directory.rglob("*")]
    files = {(one.st_dev, one.st_ino): one.st_size for one in found if not stat.S_ISDIR(one.st_mode)}
    return sum(files.values()) / 2**20
