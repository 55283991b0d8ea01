"""ResourceClaims, templates and ResourceSlices from files: ``claims/*.yaml`` of a state directory."""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from webhook.cluster.files.claim_manifests import ClaimObjects, claim_objects
from webhook.cluster.files.state_files import read_state_yaml
from webhook.decisions.claims.slices import Pools
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import ResourceClaim, ResourceClaimTemplate
from webhook.words.errors import ClaimsUnreadable, FormatError, ManifestError

_Found = Mapping[tuple[str, str], ResourceClaim] | Mapping[tuple[str, str], ResourceClaimTemplate]


def load_claims(root: Path) -> ClaimObjects:
    """Load the objects about claims from the files of a state directory; other kinds are ignored.

    Raises:
        ManifestError: a file cannot be read, or is no YAML.
        FormatError: an object has another shape, or an old version of the API.
    """
    files = sorted((root / "claims").glob("*.yaml"))
    return claim_objects((document, str(file)) for file in files for document in read_state_yaml(file))


class DirectoryClaims:
    """The claims of a state directory, as :class:`webhook.cluster.state.Claims`.

    Claims and templates are read anew each time, so that a person may edit an allocation while the server runs.
    ResourceSlices are read once, as topologies of nodes are.

    Args:
        root: The state directory.
        settings: The settings that name the drivers of GPUs.
    """

    def __init__(self, root: Path, settings: ClaimSettings) -> None:
        self._root = root
        self._settings = settings

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaim as JSON, with the fields that we read, or ``None`` if no file has it.

        Raises:
            ClaimsUnreadable: a file cannot be read, or the reading took too long.
        """
        found = await self._load(f"resourceclaim {namespace}/{name}", deadline)
        return _encoded(found.claims, namespace, name)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaimTemplate as JSON, with the fields that we read, or ``None`` if no file has it.

        Raises:
            ClaimsUnreadable: as for :meth:`claim`.
        """
        found = await self._load(f"resourceclaimtemplate {namespace}/{name}", deadline)
        return _encoded(found.templates, namespace, name)

    def pools(self) -> Pools:
        """Return the devices in the files.

        Raises:
            ManifestError, FormatError: as for :func:`load_claims`.
        """
        return self._pools

    @cached_property
    def _pools(self) -> Pools:
        return load_claims(self._root).pools(self._settings)

    async def _load(self, what: str, deadline: float | None) -> ClaimObjects:
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.to_thread(load_claims, self._root)
        except TimeoutError:
            raise ClaimsUnreadable(f"{what}: expected the files to be read in time, found none yet") from None
        except (ManifestError, FormatError) as error:
            raise ClaimsUnreadable(str(error)) from None


def _encoded(objects: _Found, namespace: str, name: str) -> bytes | None:
    found = objects.get((namespace, name))
    return None if found is None else msgspec.json.encode(found)
