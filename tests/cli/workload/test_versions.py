"""What inject says where versions are not known."""

from tests.judge import policy
from webhook.cli.workload import inject_manifest
from webhook.cli.workload.versions import unknown_versions, version_note
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.version import Version

POD = """\
kind: Pod
metadata: {{name: train, annotations: {{{annotations}}}}}
spec: {{{spec}containers: [{{name: train, resources: {{limits: {{nvidia.com/gpu: {count}}}}}}}]}}
"""


def dependent(annotations: str = "", *, spec: str = "", count: int = 2, **versions: str) -> frozenset[str]:
    text = POD.format(annotations=annotations, spec=spec, count=count)
    return inject_manifest(text, "it", policy(cluster=versions), None).version_dependent


def test_the_remap_container_and_the_scheduler_policy_depend_on_them() -> None:
    assert dependent() == {"remap", "scheduler-policy"}


def test_each_version_alone_leaves_what_depends_on_the_other() -> None:
    assert dependent(hamiVersion="2.10.0") == {"remap"}
    assert "scheduler-policy" in dependent(kubernetesVersion="1.33")


def test_a_refusal_may_depend_on_them() -> None:
    assert "refusals" in dependent("gpu.topology/remap: sidecar")


def test_the_note_names_what_is_not_known_and_the_options() -> None:
    unknown = unknown_versions(ClusterFacts(hami=Version(2, 9)))
    assert unknown == ["Kubernetes"]
    note = version_note(unknown, frozenset({"remap"}))
    assert note == (
        "note: the version of Kubernetes is not known here, and some of the result depends on that: whether the "
        "webhook would verify the GPUs and write the NCCL topology file when it starts (remap). Give "
        "--kubernetes-version, or a state directory that says it (--state)"
    )


def test_there_is_no_note_where_nothing_depends_on_them() -> None:
    assert version_note([], frozenset({"remap"})) == ""
    assert version_note(["HAMi"], frozenset()) == ""
