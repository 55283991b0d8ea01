"""What the documents for operators promise is what the code does."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.docs.test_docs import rows, slug, text
from webhook.cluster.api import permissions, pod_events, session, verbs
from webhook.cluster.api.permissions import Permission, Scope
from webhook.decisions.admit.remap.choice import choose_carrier
from webhook.decisions.allocation.limit import MAX_CHARACTERS
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import Config, ServerSettings
from webhook.decisions.request.placement import Hindrance
from webhook.decisions.resolve.node import SETS_KEPT
from webhook.decisions.resolve.outputs import NODE_TOPOLOGY_LIMIT
from webhook.programs.remap.verdict import ExitCode
from webhook.words import names
from webhook.words.choices import Carrier, Profile
from webhook.words.version import Version

ROOT = Path(__file__).parents[2]
PERMISSION_LABELS = {names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID, names.ALLOW_HOST_NETWORK, names.ALLOW_NODE_GPUS}
SECTIONS = {
    "WEBHOOK": "### The webhook (`gpu-topology serve`)",
    "CLAIMS": "#### With `claims.enabled`",
    "PLANNER": "### The planner (`gpu-topology place`)",
    "AGENT": "### The agent (`gpu-topology agent`)",
    "AGENT_TAINTS": "### An agent with `--taint-devices`",
    "EXPLAIN": "### A person with `gpu-topology explain`",
    "ANALYZE": "## Permissions of the caller",
    "PUBLISH": "#### Permissions to publish",
    "PLAN": "### A person with `gpu-topology topology plan`",
    "WORKLOADS": "## A workload by its name",
    "NAMESPACE": "## The workloads of a namespace",
    "NAMESPACE_CHANGE": "### To change a namespace",
    "DEFRAG": "## To plan moves",
    "EVICT": "### To evict pods",
    "READER": "## The ClusterRole `gpu-topology-reader`",
    "VIEW": "## The ClusterRole `gpu-topology-view`",
}
"""Headings below which a page has what each list of webhook/cluster/api/permissions.py allows."""
SCOPES = {
    Scope.CLUSTER: "cluster",
    Scope.OWN_NAMESPACE: "own namespace",
    Scope.TOPOLOGIES: "topologies",
    Scope.PODS: "the pod's",
    Scope.DEFAULT_NAMESPACE: "`default`",
}


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def lists_of_permissions() -> dict[str, tuple[Permission, ...]]:
    found = {name: value for name, value in vars(permissions).items() if isinstance(value, tuple)}
    return {name: value for name, value in found.items() if value and isinstance(value[0], Permission)}


@pytest.mark.parametrize("page", ["docs/security.md", "docs/annotations.md"])
def test_every_permission_label_has_a_row(page: str) -> None:
    documented = {row[0].strip("`") for row in rows(text(page))}
    assert {label for label in documented if label.startswith(names.PREFIX + "allow-")} == PERMISSION_LABELS


def test_every_permission_of_a_program_is_explained_and_no_other() -> None:
    page = "".join(map(text, ("docs/security.md", "docs/rights.md", "docs/analyze.md", "docs/topology.md")))
    for program, heading in SECTIONS.items():
        allowed = lists_of_permissions()[program]
        section = page.split(heading + "\n")[1].split("\n#")[0]
        documented = {
            (scope, *codes(resource), *codes(verbs)) for scope, resource, verbs, *_ in rows(section) if codes(resource)
        }
        assert documented == {
            (SCOPES[permission.scope], permission.resource, *permission.verbs) for permission in allowed
        }, program


def test_every_list_of_permissions_has_a_section_but_that_of_the_page() -> None:
    assert lists_of_permissions().keys() == SECTIONS.keys() | {"PAGE"}


def test_the_page_needs_what_analyze_needs_and_to_watch_what_it_lists() -> None:
    watched = {
        replace(each, verbs=(*each.verbs, "watch")) if "list" in each.verbs else each for each in permissions.ANALYZE
    }
    assert set(permissions.PAGE) == watched
    assert "The live page also needs `watch` on everything that it lists." in text("docs/analyze.md")


def test_every_permission_of_managed_certificates_is_named_and_no_other() -> None:
    section = text("docs/security.md").split("\n### Certificates\n")[1].split("\n#")[0]
    documented = {
        (scope, *codes(resource), *codes(verbs)) for scope, resource, verbs, _ in rows(section) if codes(resource)
    }
    terms = Config().certificates
    assert documented == {
        (SCOPES[permission.scope], permission.resource, *permission.resource_names, *permission.verbs)
        for permission in permissions.certificates(terms.secret, terms.webhook_configuration)
    }


def test_every_profile_stands_in_the_table_of_pod_security() -> None:
    section = text("docs/security.md").split("\n## Pod Security\n")[1].split("\n## ")[0]
    documented = {profile for row in rows(section)[2:] for profile in codes(row[0])}
    assert documented == {str(profile) for profile in Profile}


def test_every_exit_code_of_remap_has_a_row() -> None:
    section = text("docs/injection.md").split("\n## 12. The remap program\n")[1].split("\n## ")[0]
    assert {int(row[0]) for row in rows(section) if row[0].isdigit()} == set(ExitCode)


def test_every_cause_that_keeps_a_pod_from_waiting_for_the_planner_has_a_row() -> None:
    section = text("docs/injection.md").split("\n**placement** ")[1].split("\n**compatibility** ")[0]
    assert {cause for row in rows(section) for cause in codes(row[0])} == set(Hindrance)


@pytest.mark.parametrize(
    ("row", "version"),
    [
        ("2.5, 2.6", "2.5.3"),
        ("2.7, 2.8", "2.8.3"),
        ("2.9", "2.9.0"),
        ("**2.10.0**", "2.10.0"),
        ("fixed releases after 2.10.0", "2.10.1"),
        ("fixed releases after 2.10.0", "2.11.0"),
    ],
)
def test_each_version_of_hami_gets_the_carrier_of_its_row(row: str, version: str) -> None:
    (carrier,) = (cells[1] for cells in rows(text("docs/compatibility.md")) if cells[0] == row)
    hami = Version.parse(version, source="test")
    found = [
        str(choose_carrier(Carrier.AUTO, ClusterFacts(hami=hami, kubernetes=Version.parse(kubernetes, source="test"))))
        for kubernetes in ("1.29", "1.28")
    ]
    assert codes(carrier) == list(dict.fromkeys(found))


def test_the_limits_are_those_of_the_code() -> None:
    section = text("docs/operations.md").split("\n### Caches\n")[1].split("\n### ")[0]
    documented = {row[0]: row[1] for row in rows(section)}
    kib, mib = 1024, 1024 * 1024
    for what, amount in {
        "sets of GPUs, for each node": SETS_KEPT,
        "Events that wait": pod_events.WAITING,
        "connections to the API server": session.MAX_CONNECTIONS,
        "a pod that is read": verbs.OBJECT_BYTES // mib,
        "a body of a review": ServerSettings().max_review_bytes // mib,
        "an allocation annotation": MAX_CHARACTERS // kib,
        "a topology on a pod": NODE_TOPOLOGY_LIMIT // kib,
    }.items():
        assert documented[what].startswith(str(amount)), what


def test_links_to_headings_lead_to_one() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
            page = path.parent / target if target else path
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), f"{path.name}: {target}#{anchor}"


PAGES = ("install", "security", "operations", "compatibility", "annotations", "troubleshooting")


def test_values_of_the_chart_that_are_named_exist() -> None:
    values = yaml.safe_load(text("deploy/chart/values.yaml"))
    named = {
        code
        for page in PAGES
        for code in re.findall(
            r"`((?:admission|agent|certificates|image|webhook)(?:\.[a-zA-Z]+)+)[`:]", text(f"docs/{page}.md")
        )
    }
    assert "agent.ownNodeOnly" in named
    for name in named:
        found = values
        for part in name.split("."):
            assert part in found, name
            found = found[part]


def test_the_webhooks_that_are_named_are_those_of_the_chart() -> None:
    registration = text("deploy/chart/templates/webhook/registration.yaml")
    registered = re.findall(r"^- name: (\S+)$", registration, re.MULTILINE)
    section = text("docs/operations.md").split("\n### As installed\n")[1].split("\n### ")[0]
    documented = {row[0].strip("`"): row for row in rows(section)[2:]}
    values = yaml.safe_load(text("deploy/chart/values.yaml"))["admission"]
    assert list(documented) == registered
    for name, settings in zip(registered, (values["pods"], values["bindings"]), strict=True):
        assert documented[name][2:4] == [f"`{settings['failurePolicy']}`", f"{settings['timeoutSeconds']} s"]
