"""Each attack is held off: it is refused, replies stay small, and nobody in another namespace notices."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.attacks.pods import ATTACKS
from tests.control_plane.attacks.replay import Attack, Found, replay, report
from tests.control_plane.attacks.stage import Stage, running_stage
from tests.control_plane.control_plane import Binaries
from tests.control_plane.processes import NotRunningError
from tests.control_plane.registration import gpu_pod
from tests.figures import ShowFigures
from tests.nvml.stub import nvml_library

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def stage(binaries: Binaries, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("attacks")
    try:
        with running_stage(binaries, directory, nvml_library) as running:
            yield running
    except NotRunningError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_attack_is_held_off(attack: Attack, stage: Stage, show_figures: ShowFigures) -> None:
    figures = replay(attack, stage)
    with show_figures():
        print()
        report([figures])
    assert figures.faults == []


def test_no_pod_is_created_with_an_ephemeral_container_so_none_hides_a_list_of_gpus_there(stage: Stage) -> None:
    pod = gpu_pod("spied-on", {})
    pod["spec"]["ephemeralContainers"] = [
        {"name": "spy", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ]
    answer = stage.creator.creates(stage.team, pod, dry_run=True)
    assert answer.status == 422
    assert "spec.ephemeralContainers: Forbidden" in answer.text


def test_where_the_replica_ends_the_other_namespace_is_disturbed(stage: Stage) -> None:
    def end(attacked: Stage) -> Found:
        attacked.ours.kill(0)
        assert attacked.administrator.creates(attacked.others, gpu_pod("x", {}), dry_run=True).status == 500
        attacked.ours.start(0)
        return Found("")

    faults = replay(Attack(0, "the end", end), stage).faults
    assert faults != []
    assert "failed calling webhook" in faults[0]
