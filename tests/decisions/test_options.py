"""Options: the configuration's, under the namespace's, under the pod's."""

from typing import Any

import pytest

from webhook.decisions.options import Options, Variable, is_output, resolve_options
from webhook.objects.pod import Metadata, Namespace, Pod
from webhook.words.errors import FormatError, shorten


def resolve(defaults: Options, namespace: dict[str, str], pod: dict[str, str]) -> Options:
    return resolve_options(defaults, Pod(metadata=Metadata(name="b", annotations=pod)), Namespace("a", {}, namespace))


@pytest.mark.parametrize(
    ("option", "field", "values"),
    [
        ("profile", "profile", ("observe", "pod-peers", "node-peers")),
        ("policy", "policy", ("spread", "nvlink", "single-numa")),
        ("nvls", "nvls", ("on", "off", "auto")),
        ("nccl-p2p-level", "nccl_p2p_level", ("SYS", "NVL", "PIX")),
        ("remap", "remap", ("init", "sidecar", "binding")),
        ("shm-size", "shm_size", ("1Gi", "2Gi", "3Gi")),
        ("group", "group", ("a", "b", "c")),
    ],
)
def test_the_pod_wins_over_the_namespace_and_that_over_the_configuration(
    option: str, field: str, values: tuple[str, str, str]
) -> None:
    lowest, middle, highest = values
    fields: dict[str, Any] = {field: lowest}
    defaults, key = Options(**fields), f"gpu.topology/{option}"
    assert getattr(resolve(defaults, {}, {}), field) == lowest
    assert getattr(resolve(defaults, {key: middle}, {}), field) == middle
    assert getattr(resolve(defaults, {}, {key: highest}), field) == highest
    assert getattr(resolve(defaults, {key: middle}, {key: highest}), field) == highest


def test_a_pod_can_take_back_what_its_namespace_asks_for() -> None:
    namespace = {"gpu.topology/require-nvlink": "true", "gpu.topology/host-ipc": "true"}
    found = resolve(Options(), namespace, {"gpu.topology/require-nvlink": "false", "gpu.topology/host-ipc": "false"})
    assert (found.require_nvlink, found.host_ipc) == (False, False)


def test_nothing_asked_is_all_defaults() -> None:
    found = resolve(Options(), {"other/profile": "pod-peers"}, {"gpu.topology": "x"})
    assert found == Options()
    assert found.profile == "exclusive"
    assert found.policy == "best-effort"
    assert found.shm_size == "8Gi"
    assert found.topology_file is True
    assert (found.inject, found.host_ipc, found.host_pid, found.host_network) == (None, None, None, None)


def test_lists_and_numbers_are_read() -> None:
    written = {"containers": " a , b-1", "min-bandwidth": "1.5e2", "place-wait": "1h2m3s"}
    found = resolve(Options(), {}, {f"gpu.topology/{name}": value for name, value in written.items()})
    assert found.containers == ("a", "b-1")
    assert found.min_bandwidth == 150.0
    assert found.place_wait == 3723.0


def test_variables_of_all_three_places_come_together_and_only_the_pods_replace() -> None:
    defaults = Options(env=(Variable("A", "config", False), Variable("B", "config", False)))
    found = resolve(
        defaults, {"gpu.topology/env.B": "namespace", "gpu.topology/env.C": "namespace"}, {"gpu.topology/env.C": "pod"}
    )
    assert found.env == (Variable("A", "config", False), Variable("B", "namespace", False), Variable("C", "pod", True))


def test_a_bad_value_names_its_layer() -> None:
    with pytest.raises(
        FormatError, match=r"^annotation gpu.topology/nvls on pod a/b: expected one of auto, on, off, found "
    ):
        resolve(Options(), {}, {"gpu.topology/nvls": "x"})


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("gpu.topology/ring-order", True),
        ("gpu.topology/nccl-env.NCCL_ALGO", True),
        ("gpu.topology/profile", False),
        ("other/injected", False),
    ],
)
def test_outputs_are_known_as_such(key: str, expected: bool) -> None:
    assert is_output(key) is expected


def test_a_found_value_is_cut_after_60_characters() -> None:
    assert shorten("x" * 60) == '"' + "x" * 60 + '"'
    assert shorten("x" * 61) == '"' + "x" * 60 + '..." (61 characters)'
    assert shorten(None) == '"None"'


def test_what_verify_wrote_onto_a_pod_is_no_option_and_no_misspelled_one() -> None:
    assert resolve(Options(), {}, {"gpu.topology/measured": "{}"}) == Options()
    assert resolve(Options(), {}, {"gpu.topology/measure": "{}"}).unknown == ("gpu.topology/measure",)


@pytest.mark.parametrize(
    ("namespace", "pod", "policy", "node_policy"),
    [
        ({}, {"multi-node-policy": "pack"}, "best-effort", "pack"),
        ({}, {"multi-node-policy": "spread", "policy": "nvlink"}, "nvlink", "spread"),
        ({}, {"policy": "pack"}, "best-effort", "pack"),
        ({}, {"policy": "pack", "multi-node-policy": "spread"}, "best-effort", "spread"),
        ({}, {"policy": "pack", "multi-node-policy": "pack", "node-policy": "spread"}, "best-effort", "spread"),
        ({"node-policy": "spread"}, {"policy": "pack"}, "best-effort", "pack"),
        ({"policy": "pack"}, {"policy": "nvlink"}, "nvlink", "pack"),
        ({"multi-node-policy": "pack"}, {"node-policy": "best-fit"}, "best-effort", "best-fit"),
    ],
)
def test_a_policy_for_nodes_may_have_another_name(
    namespace: dict[str, str], pod: dict[str, str], policy: str, node_policy: str
) -> None:
    def annotations(of: dict[str, str]) -> dict[str, str]:
        return {f"gpu.topology/{name}": value for name, value in of.items()}

    found = resolve(Options(), annotations(namespace), annotations(pod))
    assert (found.policy, found.node_policy, found.unknown) == (policy, node_policy, ())


def test_a_wrong_value_under_another_name_is_told_under_that_name() -> None:
    with pytest.raises(FormatError, match=r"^annotation gpu.topology/multi-node-policy on pod a/b: expected one of "):
        resolve(Options(), {}, {"gpu.topology/multi-node-policy": "dense", "gpu.topology/node-policy": "pack"})
