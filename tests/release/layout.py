"""A directory in the form of an OCI image layout, which stands in for a registry.

The names and media types are those of Helm (helm.sh/docs/topics/registries, "Helm chart manifest").
"""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import yaml

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
REFERENCE = "org.opencontainers.image.ref.name"


def push(package: Path, layout: Path) -> str:
    """Write a packaged chart into a new layout, and return the digest that a release signs."""
    metadata = chart_metadata(package)
    config = _put(layout, json.dumps(metadata, sort_keys=True).encode(), CHART_CONFIG)
    content = _put(layout, package.read_bytes(), CHART_CONTENT)
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [content]}
    manifest = _put(layout, json.dumps(document, sort_keys=True).encode(), MANIFEST)
    named = manifest | {"annotations": {REFERENCE: metadata["version"]}}
    _write(layout / "oci-layout", {"imageLayoutVersion": "1.0.0"})
    _write(layout / "index.json", {"schemaVersion": 2, "manifests": [named]})
    return str(manifest["digest"])


def pull(layout: Path, version: str) -> bytes:
    """The packaged chart of that version.

    Raises:
        ValueError: there is none, or a blob is not what its digest says.
    """
    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    named = [one for one in index["manifests"] if one.get("annotations", {}).get(REFERENCE) == version]
    if len(named) != 1:
        raise ValueError(f"{layout}: expected one manifest of version {version}, found {len(named)}")
    manifest = json.loads(_get(layout, named[0]))
    (content,) = (one for one in manifest["layers"] if one["mediaType"] == CHART_CONTENT)
    _get(layout, manifest["config"])
    return _get(layout, content)


def chart_metadata(package: Path) -> dict[str, Any]:
    """``Chart.yaml`` of a packaged chart."""
    with tarfile.open(package) as archive:
        (name,) = (one for one in archive.getnames() if one.count("/") == 1 and one.endswith("/Chart.yaml"))
        member = archive.extractfile(name)
        assert member is not None
        found: dict[str, Any] = yaml.safe_load(member.read())
    return found


def _put(layout: Path, content: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    path = layout / "blobs" / "sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _get(layout: Path, descriptor: dict[str, Any]) -> bytes:
    digest = str(descriptor["digest"]).removeprefix("sha256:")
    content = (layout / "blobs" / "sha256" / digest).read_bytes()
    if (hashlib.sha256(content).hexdigest(), len(content)) != (digest, descriptor["size"]):
        raise ValueError(f"{layout}: the blob {digest} is not what its digest and its size say")
    return content


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, sort_keys=True), encoding="utf-8")
