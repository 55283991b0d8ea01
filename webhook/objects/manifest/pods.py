"""Conversion of parsed manifests to pods."""

import json
from typing import Any

import msgspec

from webhook.objects.pod import Metadata, Pod
from webhook.words.errors import ManifestError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

_POD = msgspec.json.Decoder(Pod)


def to_json(document: Any, source: str = "the manifest") -> bytes:
    """Returns parsed YAML as the JSON that the API server would send.

    Args:
        document: Plain values, perhaps of the subclasses of str and int that carry YAML's comments.
        source: The name of the manifest in messages.

    Raises:
        ManifestError: the document contains itself, or has keys that are not texts.
    """
    try:
        return json.dumps(document, default=str).encode()  # what is left, dates, are strings in Kubernetes
    except (ValueError, RecursionError):
        raise ManifestError(f"{source}: expected a manifest, found one that contains itself") from None
    except TypeError:  # json takes no other keys
        raise ManifestError(f"{source}: expected keys that are texts, found a list, a mapping or a date") from None


def decode_pod(document: bytes, source: str) -> Pod:
    """Returns the fields of a pod that this project reads.

    Args:
        document: The pod as JSON.
        source: The name of the manifest in messages.

    Raises:
        ManifestError: a field has another type than in a pod, or a text is not valid UTF-8.
    """
    try:
        return decode(_POD, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"{source}: {shape_problem(error)}") from None


def in_namespace(pod: Pod, default: str) -> Pod:
    """Returns the pod with a default namespace if it names none."""
    metadata = pod.metadata or Metadata()
    named = msgspec.structs.replace(metadata, namespace=metadata.namespace or default)
    return msgspec.structs.replace(pod, metadata=named)
