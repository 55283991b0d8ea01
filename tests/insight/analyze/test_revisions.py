"""What ``analyze`` says of namespaces that a revision serves; faults.py has those that no release serves."""

from tests.insight.analyze.clusters import CONFIGURATION, Cluster, namespace, program, registration


def test_a_namespace_of_a_revision_that_is_installed_is_in_order() -> None:
    cluster = Cluster()
    cluster.add(namespace("team-b", revision="canary"))
    assert cluster.found() == {("GT194", "Namespace team-b")}
    cluster.add(registration("gpu-topology-webhook-canary"))
    cluster.add(program("webhook-canary", 2, 2))
    assert cluster.found() == set()
    cluster.add(namespace("team-b", revision="next"))
    assert cluster.found() == {("GT194", "Namespace team-b")}


def test_the_finding_names_the_revision_and_the_registration_that_is_missing() -> None:
    cluster = Cluster()
    cluster.add(namespace("team-b", revision="canary"))
    (found,) = cluster.analyzed()
    assert found.severity.value == "error"
    assert "names canary, and there is no MutatingWebhookConfiguration gpu-topology-webhook-canary" in found.text


def test_registrations_that_were_not_read_are_not_taken_for_missing() -> None:
    cluster = Cluster()
    cluster.add(namespace("team-b", revision="canary"))
    for key in [key for key in cluster.objects if key[0] == CONFIGURATION]:
        del cluster.objects[key]
    cluster.read.remove(CONFIGURATION)
    assert "GT194" not in {code for code, _ in cluster.found()}
