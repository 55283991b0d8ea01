"""Builds both images from the Dockerfile as it stands, without a registry.

The one thing that stands in for something else is the base: mmdebstrap makes it of the packages of Debian of which
``debian:bookworm-slim`` is made, and it gets that name. Buildah then runs every instruction, apt and pip included.

What was built is kept in ``~/.cache``, so that the next run builds only what changed, and all of it after a week, when
Debian may have other packages.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
BASE = f"docker.io/library/debian:{SUITE}-slim"
PROGRAMS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "setpriv": "util-linux"}
# debian:*-slim leaves these out: github.com/debuerreotype/debuerreotype, scripts/.slimify-excludes.
EXCLUDED = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


class BuildError(Exception):
    """A program failed; the text has what it said last."""


_KEPT_SECONDS = 7 * 86400
# Each gets a name, because rmi --prune removes what no named image needs. The last two are the images.
_STAGES = ("libraries", "program", "remap", "webhook")


@dataclass(frozen=True, slots=True)
class Image:
    """A built image."""

    root: Path
    """Its files, as a container has them."""
    config: str
    """What ``buildah inspect`` says, as JSON."""


@dataclass(frozen=True, slots=True)
class Images:
    """What the Dockerfile makes."""

    webhook: Image
    remap: Image


def missing() -> str:
    """Why the image cannot be built here; empty if it can."""
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"expected {', '.join(packages)}: apt-get install {' '.join(packages)}"
    return "" if os.geteuid() == 0 else f"expected root, found uid {os.geteuid()}: sudo make image-test"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a build is told of the release."""

    version: str
    revision: str


_TRIED = Stamp("1.2.3", "abc")


def save_layouts(directory: Path, source: Path, stamp: Stamp, *, anew: bool) -> None:
    """Build both images, and write each as an OCI layout into a subdirectory of its name.

    Args:
        directory: Takes the layouts.
        source: The checkout.
        stamp: Version and revision of the labels.
        anew: Whether each instruction runs, also one of which an earlier build kept the result.

    Raises:
        BuildError: the base or an image cannot be built.
    """
    with _storage() as (kept, buildah), tempfile.TemporaryDirectory() as settings:
        _ensure_base(kept, buildah)
        # One time for all files, in place of that of the build. No history: in it buildah names its own images of
        # single steps, whose ids differ each time.
        options = ["--timestamp", "0", "--omit-history", *(["--no-cache"] if anew else [])]
        _build_stages(Path(settings), buildah, source, stamp, options)
        for name in ("webhook", "remap"):
            _run(*buildah, "push", "--quiet", f"localhost/{name}", f"oci:{directory / name}:{stamp.version}")


@contextmanager
def built(directory: Path) -> Iterator[Images]:
    """Both images, for as long as the context lasts.

    Args:
        directory: Empty, for what the build needs of this machine.

    Raises:
        BuildError: the base or an image cannot be built.
    """
    with _storage() as (kept, buildah):
        _ensure_base(kept, buildah)
        _build_stages(directory, buildah, ROOT, _TRIED)
        yield Images(webhook=_mounted(buildah, "webhook"), remap=_mounted(buildah, "remap"))


@contextmanager
def _storage() -> Iterator[tuple[Path, Sequence[str]]]:
    """Where results are kept, and buildah with its storage there; for one run at a time."""
    kept = _kept()
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        buildah = ["buildah", "--root", f"{kept}/storage", "--runroot", f"{kept}/run"]
        _run(*buildah, "rm", "--all")  # what a run that was killed has left
        try:
            yield kept, buildah
        finally:
            _run(*buildah, "rm", "--all")


def _build_stages(
    directory: Path, buildah: Sequence[str], source: Path, stamp: Stamp, more: Sequence[str] = ()
) -> None:
    pip_conf = directory / "pip.conf"
    pip_conf.write_text(_pip_conf(), encoding="utf-8")
    options = [f"--volume={pip_conf}:/etc/pip.conf:ro"]
    if TRUSTED.exists():  # also what a company's proxy signs with
        options.append(f"--volume={TRUSTED}:{_IN_BUILD}:ro")
    arguments = ["--build-arg", f"VERSION={stamp.version}", "--build-arg", f"REVISION={stamp.revision}"]
    # HEALTHCHECK is a word of docker's format, not of OCI's.
    form = ["--isolation", "chroot", "--format", "docker", "--pull-never", "--layers", *more]
    for stage in _STAGES:
        _run(*buildah, "bud", *form, *options, *arguments, "--target", stage, "--tag", stage, str(source))
    _run(*buildah, "rmi", "--prune")  # what an earlier run built and this one does not need


def _mounted(buildah: Sequence[str], name: str) -> Image:
    container = _run(*buildah, "from", "--pull-never", f"localhost/{name}")
    root = Path(_run(*buildah, "mount", container))
    return Image(root, _run(*buildah, "inspect", "--type", "image", f"localhost/{name}"))


_IN_BUILD = "/etc/ssl/host-certificates.crt"


def _pip_conf() -> str:
    """What pip needs to know of this machine's way to its index."""
    settings = {"cert": _IN_BUILD if TRUSTED.exists() else "", "index-url": os.environ.get("PIP_INDEX_URL", "")}
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items() if value)


def _kept() -> Path:
    """Where what was built is kept."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "gpu-topology-webhook" / "image"


def _ensure_base(kept: Path, buildah: Sequence[str]) -> None:
    """Make the stand-in for ``debian:bookworm-slim``, and begin anew if the one that is there is too old."""
    made = kept / "base-made"
    if made.exists() and time.time() - made.stat().st_mtime < _KEPT_SECONDS:
        return
    if (kept / "storage").exists():
        _run(*buildah, "rm", "--all")
        _run(*buildah, "rmi", "--all", "--force")
    archive = kept / f"debian-{SUITE}-slim.tar"
    excluded = [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
    merged = ["--include=usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    _run("mmdebstrap", "--quiet", "--variant=minbase", *merged, *excluded, SUITE, str(archive))
    container = _run(*buildah, "from", "--isolation", "chroot", "scratch")
    _run(*buildah, "add", "--quiet", container, str(archive), "/")
    _run(*buildah, "commit", "--quiet", "--rm", "--format", "docker", container, BASE)
    archive.unlink()
    made.touch()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.strip()
