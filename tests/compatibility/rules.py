"""What we rely on from HAMi, a sentence each, and the tests in ``tests/control_plane/hami/`` that judge it."""

from dataclasses import dataclass

HAMI_TESTS = "tests/control_plane/hami/"


@dataclass(frozen=True)
class Judge:
    """Tests whose ids begin so.

    Attributes:
        tests: File, function and, where they matter, parameters, below ``HAMI_TESTS``.
        part: The key of those subtests that count; empty for the whole test.
    """

    tests: str
    part: str = ""


@dataclass(frozen=True)
class Rule:
    """A sentence.

    Attributes:
        name: Never changes.
        sentence: What holds.
        link: From ``docs/compatibility.md`` to what says more of it.
        judges: A test belongs to the rule with the longest id that fits.
        is_needed: Whether something of ours breaks where it does not hold. Otherwise HAMi is only another one than
            described.
    """

    name: str
    sentence: str
    link: str
    judges: tuple[Judge, ...]
    is_needed: bool = True


def _by(*tests: str) -> tuple[Judge, ...]:
    return tuple(Judge(each) for each in tests)


_PLUGIN, _FAULTS, _QUOTA = "test_real_device_plugin.py::", "test_faults.py::", "test_quota.py::"
_UPGRADE = "test_upgrade.py::test_hami_counts_the_gpus_of_running_pods_as_the_table_says"

RULES = (
    Rule(
        "whole-cards",
        "A pod of whole cards gets them, and the values that it reads are those of these cards",
        "injection.md",
        _by("test_exclusive.py::"),
    ),
    Rule(
        "peers",
        "Pods and containers that exchange GPU memory see the cards of one node, and each computes on its own",
        "annotations.md#profiles",
        _by("test_peers.py::"),
    ),
    Rule(
        "requirements",
        "A pod whose Binding is refused stays without a node, and HAMi gives its cards back",
        "annotations.md#requirements",
        _by("test_requirements.py::"),
    ),
    Rule(
        "pins",
        "A pod gets the cards that the planner pins it to, and no others",
        "placement.md",
        _by("test_placement.py::", "test_slices.py::"),
    ),
    Rule(
        "company",
        "HAMi's webhook and ours may be asked in either order, also again, and neither takes back what the other wrote",
        "install.md",
        _by("test_company.py::"),
    ),
    Rule(
        "running-pods",
        "A running pod keeps its cards while our remap container is a sidecar, or an init container that HAMi counts",
        "#hami",
        _by(
            f"{_FAULTS}test_with_our_remap_container_a_running_pod_keeps_its_cards",
            f"{_FAULTS}test_our_sidecar_also_keeps_the_cards_of_a_pod_with_an_init_container_of_its_own",
            f"{_FAULTS}test_a_sidecar_that_is_started_again",
        ),
    ),
    Rule(
        "old-pods",
        "A running pod that another version of HAMi placed keeps the cards that the release would have left it",
        "#upgrading-hami-or-kubernetes",
        (Judge(_UPGRADE, "keeps"),),
    ),
    Rule(
        "quota",
        "HAMi's quota counts the cards of an injected pod before and after its start",
        "annotations.md#opt-in",
        _by(_QUOTA),
    ),
    Rule(
        "plugin",
        "HAMi's device plugin gives a container the cards of its allocation, whole ones without interception",
        "testing.md#hamis-device-plugin",
        _by(
            f"{_PLUGIN}test_whole_cards_come_without_interception",
            f"{_PLUGIN}test_a_slice_keeps_the_interception",
            f"{_PLUGIN}test_containers_of_one_pod",
            f"{_PLUGIN}test_pods_of_a_group",
            f"{_PLUGIN}test_whole_cards_that_come_by_another_way",
        ),
    ),
    Rule(
        "register",
        "HAMi's device plugin registers cards, and leaves pod and node behind, in the form that we read",
        "testing.md#hamis-device-plugin",
        _by(f"{_PLUGIN}test_the_node_is_registered", f"{_PLUGIN}test_the_plugin_leaves_pod_and_node"),
    ),
    Rule(
        "allocation-stays",
        "The allocation of a pod stays as it was at the Binding",
        "#numa-refit",
        _by(f"{_PLUGIN}test_the_allocation_stays_as_it_was_bound"),
    ),
    Rule(
        "outputs",
        "HAMi binds and serves a pod whose annotations a tenant cannot change",
        "security.md#a-tenant-who-may-also-patch-pods",
        _by("test_outputs.py::test_hami_binds_and_serves"),
    ),
    Rule(
        "counts",
        "HAMi counts the cards of old pods as the table says, and `analyze` foretells it",
        "#upgrading-hami-or-kubernetes",
        (Judge(_UPGRADE, "updated"), Judge(_UPGRADE, "pod")),
        is_needed=False,
    ),
    Rule(
        "faults",
        "The faults of HAMi that we steer around are there",
        "#hami",
        _by(
            f"{_FAULTS}test_hami_2_10_0_gives_the_cards",
            f"{_FAULTS}test_so_it_does",
            f"{_FAULTS}test_hami_2_9_0_binds_without_a_gpu",
            f"{_FAULTS}test_hami_2_10_0_takes_the_first_cards",
            f"{_FAULTS}test_a_sidecar_that_is_started_again_keeps_the_cards_because_it_ends_with_143[0-",
            f"{_QUOTA}test_hami_counts_the_cards_of_an_injected_pod_before_and_after_its_start[2.10.0-init",
            # Where HAMi writes a segment for every init container, nothing is lost and no Event is needed.
            "test_company.py::test_our_sidecar_stands_first_if_we_are_asked_again_and_otherwise_an_event_says_that_it_"
            "does_not[2.10.0-Never",
        ),
        is_needed=False,
    ),
)
