"""Builds the image from the Dockerfile as it stands, without a registry.

The one thing that stands in for something else is the base: mmdebstrap makes it of the packages of Debian of which
``debian:bookworm-slim`` is made, and it gets that name. Buildah then runs every instruction, apt and pip included.
"""

import os
import shutil
import subprocess
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


@dataclass(frozen=True, slots=True)
class Image:
    """A built image."""

    root: Path
    """Its files, as a container has them."""
    config: str
    """What ``buildah inspect`` says, as JSON."""
    base_mib: int
    """How large the stand-in base is."""


def missing() -> str:
    """Why the image cannot be built here; empty if it can."""
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"expected {', '.join(packages)}: apt-get install {' '.join(packages)}"
    return "" if os.geteuid() == 0 else f"expected root, found uid {os.geteuid()}: sudo make image-test"


def build(directory: Path) -> Image:
    """Build it, with all that it needs in ``directory``.

    Raises:
        BuildError: the base or the image cannot be built.
    """
    base = _base()
    buildah = ["buildah", "--root", f"{directory}/storage", "--runroot", f"{directory}/run", "--storage-driver", "vfs"]
    container = _run(*buildah, "from", "--isolation", "chroot", "scratch")
    _run(*buildah, "add", "--quiet", container, str(base), "/")
    _run(*buildah, "commit", "--quiet", "--rm", "--format", "docker", container, BASE)
    pip_conf = directory / "pip.conf"
    pip_conf.write_text(_pip_conf(), encoding="utf-8")
    options = [f"--volume={pip_conf}:/etc/pip.conf:ro"]
    if TRUSTED.exists():  # also what a company's proxy signs with
        options.append(f"--volume={TRUSTED}:{_IN_BUILD}:ro")
    arguments = ["--build-arg", "VERSION=1.2.3", "--build-arg", "REVISION=abc"]
    # HEALTHCHECK is a word of docker's format, not of OCI's.
    form = ["--isolation", "chroot", "--format", "docker", "--pull-never", "--tag", "image"]
    _run(*buildah, "bud", *form, *options, *arguments, str(ROOT))
    container = _run(*buildah, "from", "--pull-never", "localhost/image")
    root = Path(_run(*buildah, "mount", container))
    config = _run(*buildah, "inspect", "--type", "image", "localhost/image")
    return Image(root, config, base.stat().st_size // 2**20)


_IN_BUILD = "/etc/ssl/host-certificates.crt"


def _pip_conf() -> str:
    """What pip needs to know of this machine's way to its index."""
    settings = {"cert": _IN_BUILD if TRUSTED.exists() else "", "index-url": os.environ.get("PIP_INDEX_URL", "")}
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items() if value)


def _base() -> Path:
    """The stand-in for ``debian:bookworm-slim``, made once."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    finished = caches / "gpu-topology-webhook" / "image" / f"debian-{SUITE}-slim.tar"
    if not finished.exists():
        finished.parent.mkdir(parents=True, exist_ok=True)
        part = finished.with_name(f"part-{os.getpid()}.tar")
        excluded = [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
        merged = ["--include=usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
        _run("mmdebstrap", "--quiet", "--variant=minbase", *merged, *excluded, SUITE, str(part))
        part.replace(finished)
    return finished


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.strip()
