"""How often a pod is decoded on its way from the API server to the picture of ``status``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from tests.insight.analyze.clusters import Cluster
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.overview.picture import overview

_OF_PODS = ("Pod", "_Pod")


@contextmanager
def counting() -> Iterator[list[str]]:
    """The types with which JSON of whole pods is decoded in the block."""
    found: list[str] = []

    def called(_: FrameType, event: str, function: Any) -> None:
        decoder = getattr(function, "__self__", None)
        if event == "c_call" and isinstance(decoder, msgspec.json.Decoder) and function.__name__ == "decode":
            name = getattr(decoder.type, "__name__", "")
            found.extend([name] if name in _OF_PODS else [])

    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_status_decodes_each_pod_once() -> None:
    cluster = Cluster()
    with counting() as decoded:
        snapshot = cluster.snapshot()
        found = overview(snapshot, analyze(snapshot))
    assert found.pods
    assert decoded == ["Pod"] * len(snapshot.pods)
