"""The page for users without the webhook: its YAML is what the webhook writes, and explain says what it gains."""

import copy
import re
from pathlib import Path
from typing import Any

import yaml

from tests.insight.explain.situations import H20, annotated, finding, injected, on, told
from tests.pods import Manifest, container, pod
from webhook.cluster.redaction.objects import SNAPSHOT
from webhook.cluster.snapshot.model import KnownPod, Setting, Snapshot, known_pod, read_snapshot
from webhook.decisions.configuration import Config, admit_policy
from webhook.insight.explain.findings import Report
from webhook.insight.explain.pods import PodReports
from webhook.words.names import SHARED_MEMORY_PATH

PAGE = Path(__file__).parents[3] / "docs" / "without-webhook.md"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {}}}
ENABLED = {"metadata": {"name": "team-a", "labels": {"gpu.topology/injection": "enabled"}}}
REGISTRATION = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "gpu-topology-webhook"}}


def lines_of_page() -> dict[str, Any]:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(text)["spec"]
    return found


def with_lines(manifest: Manifest) -> Manifest:
    """The pod after its author added the lines of the page."""
    added, changed = lines_of_page(), copy.deepcopy(manifest)
    (more,), (train,) = added["containers"], changed["spec"]["containers"]
    assert more["name"] == train["name"]
    train["env"] = [*(train.get("env") or []), *more["env"]]
    train["resources"]["limits"] |= more["resources"]["limits"]
    train["volumeMounts"] = more["volumeMounts"]
    changed["spec"]["volumes"] = added["volumes"]
    return changed


def allocated(manifest: Manifest) -> Manifest:
    return on(manifest, "h20-node-1", list(H20[:2]))


def test_the_lines_take_the_pod_from_a_cause_to_the_question_what_nccl_does() -> None:
    before, after = told(allocated(pod())), told(allocated(with_lines(pod())))
    assert (before.judgement.nvlink, before.judgement.code) == ("unknown", "GT210")
    assert (after.judgement.nvlink, after.judgement.code) == ("unknown", "GT363")
    assert after.judgement.remedy.startswith(
        "Run the pod with NCCL_DEBUG=INFO and give what NCCL says: "
        "kubectl logs train | gpu-topology explain -f pod.yaml --nccl-log -"
    )
    assert finding(after, "control").verdict == finding(after, "whole-cards").verdict == "holds"


def test_the_webhook_writes_the_same() -> None:
    (more,), webhook = lines_of_page()["containers"], injected(pod())
    (train,) = webhook["spec"]["containers"]
    assert more["env"][0] in train["env"]
    assert {name: str(amount) for name, amount in more["resources"]["limits"].items()}.items() <= {
        name: str(amount) for name, amount in train["resources"]["limits"].items()
    }.items()
    assert [mount["mountPath"] for mount in more["volumeMounts"]] == [SHARED_MEMORY_PATH]
    (volume,) = lines_of_page()["volumes"]
    assert volume["emptyDir"] in [each.get("emptyDir") for each in webhook["spec"]["volumes"]]
    again = injected(with_lines(pod()))
    assert finding(told(again), "prepared").verdict == "holds"


def test_the_spelling_of_the_page_is_what_hami_reads() -> None:
    """``yes`` and ``on`` are no words for Go's ParseBool."""
    for value, code in (("true", "GT363"), ("T", "GT363"), ("yes", "GT210"), ("on", "GT210")):
        changed = with_lines(pod())
        changed["spec"]["containers"][0]["env"][0]["value"] = value
        assert told(allocated(changed)).judgement.code == code, value


def reported(manifest: Manifest, *documents: Any, is_configured: bool = False) -> Report:
    known: KnownPod = known_pod(allocated(manifest))
    setting = Setting(policy=admit_policy(Config(), version="0.1.0"), is_configured=is_configured)
    snapshot: Snapshot = read_snapshot(documents, [known], setting)
    return PodReports(snapshot).of(known)


def test_without_a_sign_of_the_webhook_no_preparation_is_missed() -> None:
    for documents in ((), (NAMESPACE,)):
        found = finding(reported(pod(), *documents), "injected")
        assert (found.verdict, found.evidence) == ("not-needed", "no sign of the webhook in this input")


def test_with_a_sign_of_it_the_missing_preparation_fails() -> None:
    enabled = NAMESPACE | ENABLED
    unread = {
        "kind": SNAPSHOT,
        "metadata": {"name": "snapshot"},
        "unread": [{"what": "mutatingwebhookconfigurations"}],
    }
    assert finding(reported(pod(), enabled), "injected").verdict == "fails"
    assert finding(reported(pod(), REGISTRATION), "injected").verdict == "fails"
    assert finding(reported(pod(), unread), "injected").verdict == "fails"
    assert finding(reported(pod(), is_configured=True), "injected").verdict == "fails"
    assert finding(reported(annotated(pod(), inject="true")), "injected").verdict == "fails"
    assert finding(reported(pod(container(gpus=2), annotations={"example.com/a": "b"})), "injected").verdict != "fails"
