"""Pods from files: ``pods/*.yaml`` of a state directory, read anew for each request."""

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

from webhook.cluster.files.state_files import read_state_yaml
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.errors import ManifestError, PodsUnreadable

_T = TypeVar("_T")


class DirectoryPods:
    """The pods of a state directory, as :class:`webhook.cluster.state.Pods`.

    They are read anew each time, so that a person may edit an allocation while the server runs.

    Args:
        root: The state directory.
    """

    def __init__(self, root: Path) -> None:
        self._directory = root / "pods"

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the pod as JSON, or ``None`` if no file has it.

        Raises:
            PodsUnreadable: a file cannot be read as pods, and none of the others has the pod; or two files have it; or
                the reading took too long.
        """
        return await _in_time(asyncio.to_thread(self._find, namespace, name), f"pod {namespace}/{name}", deadline)

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """Return the pods of a group that are on a node, as JSON.

        Raises:
            PodsUnreadable: a file cannot be read as pods, or the reading took too long.
        """
        found = asyncio.to_thread(self._find_group, namespace, group, node)
        return await _in_time(found, f"the pods of group {namespace}/{group}", deadline)

    def _find(self, namespace: str, name: str) -> bytes | None:
        found: dict[Path, bytes] = {}
        failures = []
        for path in self._files():
            try:
                for manifest, pod in _read(path):
                    if (_namespace(pod), pod.display_name) != (namespace, name):
                        continue
                    if found:
                        others = ", ".join(map(str, found))
                        raise PodsUnreadable(
                            f"{path}: expected each pod once, found {namespace}/{name} in {others} too"
                        )
                    found[path] = manifest
            except ManifestError as error:
                failures.append(error)
        if failures and not found:
            raise PodsUnreadable(str(failures[0]))
        return next(iter(found.values()), None)

    def _find_group(self, namespace: str, group: str, node: str) -> list[bytes]:
        try:
            pods = [pod for path in self._files() for pod in _read(path)]
        except ManifestError as error:
            raise PodsUnreadable(str(error)) from None
        return [
            manifest
            for manifest, pod in pods
            if _namespace(pod) == namespace
            and pod.labels.get(names.GROUP) == group
            and pod.spec
            and pod.spec.node_name == node
        ]

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.yaml"))


async def _in_time(found: Awaitable[_T], what: str, deadline: float | None) -> _T:
    try:
        async with asyncio.timeout_at(deadline):
            return await found
    except TimeoutError:
        raise PodsUnreadable(f"{what}: expected the files to be read in time, found none yet") from None


def _read(path: Path) -> Iterator[tuple[bytes, Pod]]:
    """Yield each pod of a file, as JSON and as the fields that we read.

    Raises:
        ManifestError: the file cannot be read, or holds another object.
    """
    for document in read_state_yaml(path):
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind != "Pod":
            raise ManifestError(f"{path}: expected a Pod, found {kind or 'something else'}")
        manifest = to_json(document, str(path))
        pod = decode_pod(manifest, str(path))
        if not (pod.metadata and pod.metadata.name):
            raise ManifestError(f"{path}: expected a Pod with a name, found none")
        yield manifest, pod


def _namespace(pod: Pod) -> str:
    return (pod.metadata.namespace if pod.metadata else None) or names.DEFAULT_NAMESPACE
