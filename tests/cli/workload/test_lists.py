"""Objects of a List count as if each stood in a document of its own."""

from tests.judge import FixedState, policy
from webhook.cli.workload import inject_manifest
from webhook.objects.pod import Namespace

POD = "spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 2}}}]}"
STATE = {name: Namespace(name, {"gpu.topology/injection": label}) for name, label in (("a", "enabled"), ("b", "no"))}


def test_each_item_is_judged_in_its_own_namespace_under_its_own_name() -> None:
    text = f"""\
kind: List
items:
- {{kind: Pod, metadata: {{name: one, namespace: a}}, {POD}}}
- {{kind: Pod, metadata: {{name: two, namespace: b}}, {POD}}}
"""
    state = FixedState(STATE, policy().versions)
    one, two = inject_manifest(text, "it", policy(), state).templates
    assert (one.namespace, one.label, one.outcome.reason) == ("a", "Pod one (/items/0)", "injected")
    assert (two.namespace, two.label, two.outcome.reason) == ("b", "Pod two (/items/1)", "namespace-not-enabled")


def test_an_item_of_a_list_of_pods_needs_no_kind() -> None:
    text = f"kind: PodList\nitems:\n- {{metadata: {{name: one}}, {POD}}}\n"
    (one,) = inject_manifest(text, "it", policy(), None).templates
    assert one.label == "Pod one (/items/0)"
