"""ResourceClaims, templates and ResourceSlices from files: ``claims/*.yaml`` of a state directory."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from webhook.claims.objects import (
    ClaimSpec,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    decode_claim,
    decode_slice,
    decode_template,
)
from webhook.claims.slices import Pools, slice_part
from webhook.config import ClaimSettings
from webhook.manifest.documents import read_yaml
from webhook.manifest.pods import to_json
from webhook.model.errors import ClaimsUnreadable, FormatError, ManifestError
from webhook.model.pod import Pod
from webhook.printable import printable
from webhook.state.claim_specs import Kind, read_spec, spec_sources
from webhook.state.pods import DEFAULT_NAMESPACE

API_VERSION = "resource.k8s.io/v1"
CLAIM, TEMPLATE, SLICE = "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"
_DECODERS: Mapping[str, Callable[[bytes, str], ResourceClaim | ResourceClaimTemplate | ResourceSlice]] = {
    CLAIM: decode_claim,
    TEMPLATE: decode_template,
    SLICE: decode_slice,
}
_Key = tuple[str, str, str]
"""Kind, namespace and name."""


class DirectoryClaims:
    """:class:`webhook.state.Claims` of a state directory.

    Claims and templates are read anew each time, so that a person may edit an allocation while the server runs.
    ResourceSlices are read once, as topologies of nodes are.

    Args:
        root: The state directory.
        settings: Which drivers publish GPUs.
    """

    def __init__(self, root: Path, settings: ClaimSettings) -> None:
        self._directory = root / "claims"
        self._settings = settings

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim as JSON, or ``None`` if no file has it.

        Raises:
            ClaimsUnreadable: a file cannot be read, or has other objects; or two have it; or it took too long.
        """
        return await self._find_in_time("claim", namespace, name, deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate as JSON, or ``None`` if no file has it.

        Raises:
            ClaimsUnreadable: as above.
        """
        return await self._find_in_time("template", namespace, name, deadline)

    def find(self, kind: Kind, namespace: str, name: str) -> bytes | None:
        """The same, at once.

        Raises:
            ClaimsUnreadable: as above.
        """
        key = CLAIM if kind == "claim" else TEMPLATE, namespace, name
        try:
            return self._objects().get(key)
        except ManifestError as error:
            raise ClaimsUnreadable(str(error)) from None

    def specs(self, pod: Pod, namespace: str) -> Mapping[str, ClaimSpec | None]:
        """What a pod claims, by entries of ``spec.resourceClaims``; ``None`` if the object is in no file.

        Raises:
            ClaimsUnreadable: as above.
            MalformedPod: a field has another type than in a pod.
        """
        sources = spec_sources(pod)
        return {
            entry: read_spec(self.find(source.kind, namespace, source.name), source)
            for entry, source in sources.items()
        }

    def pools(self) -> Pools:
        """The devices in the files.

        Raises:
            ManifestError: a file cannot be read, or has other objects.
            FormatError: a field has another type than in such an object.
        """
        return self._pools

    @cached_property
    def _pools(self) -> Pools:
        slices = [
            decode_slice(document, f"{SLICE} {key[2]}") for key, document in self._objects().items() if key[0] == SLICE
        ]
        parts = (slice_part(published, self._settings) for published in slices)
        return Pools(part for part in parts if part)

    async def _find_in_time(self, kind: Kind, namespace: str, name: str, deadline: float | None) -> bytes | None:
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.to_thread(self.find, kind, namespace, name)
        except TimeoutError:
            what = f"{kind} {namespace}/{name}"
            raise ClaimsUnreadable(f"{what}: expected the files to be read in time, found none yet") from None

    def _objects(self) -> dict[_Key, bytes]:
        """All of them, as JSON."""
        found: dict[_Key, bytes] = {}
        for path in sorted(self._directory.glob("*.yaml")):
            for document in _documents(path):
                key, text = _read(path, document)
                if key in found:
                    raise ManifestError(f"{path}: expected each object once, found {' '.join(key)} twice")
                found[key] = text
        return found


def _documents(path: Path) -> Iterator[Any]:
    """The objects of a file; those of a list, such as ``kubectl get -o yaml`` prints it, one by one."""
    for document in read_yaml(path):
        items = document.get("items") if isinstance(document, dict) else None
        yield from items if isinstance(items, list) else [document]


def _read(path: Path, document: Any) -> tuple[_Key, bytes]:
    found = document.get("kind") if isinstance(document, dict) else None
    kind = found if isinstance(found, str) else "something else"
    if kind not in _DECODERS:
        raise ManifestError(f"{path}: expected {', '.join(_DECODERS)}, found {printable(kind)}")
    version = document.get("apiVersion")
    if version != API_VERSION:
        found = printable(version) if isinstance(version, str) else "none"
        raise ManifestError(f"{path}: expected apiVersion {API_VERSION} of a {kind}, found {found}")
    text = to_json(document, str(path))
    try:
        metadata = _DECODERS[kind](text, str(path)).metadata
    except FormatError as error:
        raise ManifestError(str(error)) from None
    if not metadata.name:
        raise ManifestError(f"{path}: expected a {kind} with a name, found none")
    namespace = "" if kind == SLICE else metadata.namespace or DEFAULT_NAMESPACE
    return (kind, namespace, metadata.name), text
