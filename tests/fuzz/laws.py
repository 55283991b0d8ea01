"""What holds whatever the input is. Each function fails with what it found."""

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import msgspec

from tests.fuzz import effort
from tests.hardware.topology.nccl_rules import faults
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand, Requirements
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.outputs import all_annotations
from webhook.decisions.resolve.resolve import UnresolvedError, resolve
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.words.choices import Profile
from webhook.words.errors import FormatError, GpuTopologyError
from webhook.words.outcome import MAX_WARNINGS

MESSAGE_LIMIT = 8192
"""Characters of a message: some list the GPUs of a node."""
LINE_LIMIT = 16 * 1024
"""Bytes of a line of the log."""
REPLY_LIMIT = 1024 * 1024
"""Bytes of an answer."""


def check_message(text: str) -> None:
    """A message says something, obeys no terminal, and has an end."""
    assert text.strip(), "nothing is said"
    assert text.isprintable(), f"not printable: {text[:300]!r}"
    assert len(text) <= MESSAGE_LIMIT, f"{len(text)} characters: {text[:300]!r}"


def check_log_line(line: bytes) -> None:
    """A line of the log obeys no terminal, and has an end."""
    text = line.decode()
    json.loads(text)
    assert "\n" not in text
    assert text.isprintable(), f"not printable: {text[:300]!r}"
    assert len(line) <= LINE_LIMIT, f"{len(line)} bytes: {text[:300]!r}"


def check_response(body: bytes, reply: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The laws of every answer to a review. Returns the request and the response of an allowed one."""
    try:
        request = msgspec.json.decode(body)["request"]
    except UnicodeDecodeError:
        return None  # texts that we do not read are not decoded: whether they are UTF-8 is for the API server
    response = json.loads(reply)["response"]
    assert response["uid"] == request["uid"]
    assert len(reply) <= REPLY_LIMIT, f"a reply of {len(reply)} bytes"
    warnings = response.get("warnings", [])
    assert len(warnings) <= MAX_WARNINGS
    assert all(len(warning) < 120 for warning in warnings)
    if response["allowed"]:
        return request, response
    assert not patch_of(response)
    assert response["auditAnnotations"]["reason"]
    check_message(response["status"]["message"])
    return None


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations of an answer."""
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "")) or b"[]")
    return found


def check_read(data: bytes, read: Callable[[], NodeTopology], *, fixed: int, each: float) -> None:
    """A reader lets out no error but its own, takes work with the length, and what it has read keeps the laws."""
    try:
        found = effort.sampled(data, fixed=fixed, each=each, work=read)
    except GpuTopologyError as error:
        check_message(str(error))
    else:
        check_topology(found)


def check_topology(topology: NodeTopology) -> None:
    """A topology that was read can be written, read again, shown and used.

    Of the uses that cost most each topology is put to one: a file with or without host indices, a pod of one profile.
    """
    text = format_topology(topology)
    assert parse_topology(text, source="the same") == topology
    for part in (topology.problem, topology.node, *re.split(r"[\t\n]", format_matrix(matrix(topology)))):
        assert part.isprintable(), part[:300]
    turn = crc32(text.encode())
    _check_file(topology, host_indices=bool(turn & 1))
    origins = list(Origin)
    node = KnownNode(topology, origin=origins[(turn >> 1) % len(origins)])
    _check_known(node, *_USES[(turn >> 3) % len(_USES)])


_USES = ((Profile.EXCLUSIVE, 1), (Profile.EXCLUSIVE, 64), (Profile.POD_PEERS, 2), (Profile.NODE_PEERS, 3))
"""Profiles, each with a number of GPUs."""


def _check_file(topology: NodeTopology, *, host_indices: bool) -> None:
    try:
        file = format_nccl_topology(topology, host_indices=host_indices)
    except FormatError as error:
        check_message(str(error))
    else:
        found = faults(file)
        assert not found, found[:8]


def _check_known(node: KnownNode, profile: Profile, count: int) -> None:
    devices = [Device(uuid=gpu.uuid, minor=gpu.minor) for gpu in node.topology.gpus]
    given = tuple(devices[:count])
    container = GpuContainer(name="a", count=len(given), visible_key="gpu.topology/cuda-visible-devices.0")
    wanted = GpuDemand(profile=profile, containers=(container,), requirements=Requirements(nvlink=True))
    try:
        resolution = resolve(wanted, Allocation(segments=(given,)), node, peers=devices[-1:])
    except UnresolvedError as error:
        check_message(str(error))
        return
    check_written(all_annotations(resolution).items())
    for sentence in (*resolution.unmet, resolution.doubt or "-"):
        check_message(sentence)


def check_written(annotations: Iterable[tuple[str, Any]]) -> None:
    """Annotations that bind writes: texts that people can look at, of keys that are ours."""
    size = 0
    for key, value in annotations:
        assert key.startswith("gpu.topology/"), key
        assert isinstance(value, str)
        assert value.isprintable(), f"{key}: {value[:300]!r}"
        size += len(key) + len(value)
    assert size <= 256 * 1024, f"{size} characters of annotations"
