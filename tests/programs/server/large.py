"""Pods that users made large, and how much of them a server keeps."""

import tracemalloc
from collections.abc import Callable

from tests.pods import Manifest

LARGE = 300_000
"""Bytes. The API server takes 3 MiB, etcd 1.5."""
COUNT = 12

Add = Callable[[Manifest, str], None]
"""Puts a name somewhere into a pod."""


def with_variable(made: Manifest, name: str) -> None:
    """As a variable that NCCL would read."""
    made["spec"]["containers"][0].setdefault("env", []).append({"name": f"NCCL_{name}", "value": "1"})


def with_limit(made: Manifest, name: str) -> None:
    """As a resource."""
    made["spec"]["containers"][0]["resources"]["limits"][name] = "1"


def with_annotation(made: Manifest, name: str) -> None:
    """As an annotation that nobody knows."""
    made["metadata"].setdefault("annotations", {})[f"gpu.topology/{name}"] = ""


def with_output(made: Manifest, name: str) -> None:
    """As an annotation that only we write."""
    made["metadata"].setdefault("annotations", {})[f"gpu.topology/cuda-visible-devices.{name}"] = "0"


def with_asked_variable(made: Manifest, name: str) -> None:
    """As a variable that we are asked to add."""
    made["metadata"].setdefault("annotations", {})[f"gpu.topology/env.A{name}"] = "1"


PLACES: tuple[Add, ...] = (with_variable, with_limit, with_annotation, with_output, with_asked_variable)


def kept(make: Callable[[], Manifest], add: Add, ask: Callable[[Manifest], None]) -> int:
    """Bytes that are allocated and not given back while ``COUNT`` large pods are asked about, none like another."""
    tracemalloc.start()
    try:
        for number in range(COUNT):
            made = make()
            add(made, f"{number}{'x' * LARGE}")
            ask(made)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
