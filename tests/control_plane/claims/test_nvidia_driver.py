"""The slices that the tests publish are those of NVIDIA's real driver."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.claims.cluster import ClaimsCluster
from tests.control_plane.claims.drivers import Manifest, nvidia_slices
from tests.control_plane.claims.nvidia_driver import running_nvidia_driver
from tests.go_programs.catalogue import NVIDIA_DRA_DRIVER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import h20
from tests.nvml import machines

pytestmark = [pytest.mark.cluster, pytest.mark.long]

OF_REAL_HARDWARE = "resource.kubernetes.io/pcieRoot"
"""Read from the sysfs of the machine, which has no such cards."""


def test_its_slice_is_that_of_the_tests_in_another_order(claims_cluster: ClaimsCluster, go_program: GetProgram) -> None:
    executable = go_program(NVIDIA_DRA_DRIVER)
    topology = h20()
    # Not tmp_path: the path of a Unix socket has at most 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="dra-") as directory,
        claims_cluster.node(topology.node),
        running_nvidia_driver(claims_cluster, executable, topology.node, machines.h20(), Path(directory)) as driver,
    ):
        (found,) = driver.slices()
    (ours,) = nvidia_slices(topology)
    assert found["spec"]["pool"] == ours["spec"]["pool"]
    assert by_name(found) == by_name(ours)


def by_name(one: Manifest) -> dict[str, Any]:
    devices = {}
    for device in one["spec"]["devices"]:
        attributes = {key: value for key, value in device["attributes"].items() if key != OF_REAL_HARDWARE}
        devices[device["name"]] = device | {"attributes": attributes}
    return devices
