"""What the documents for operators promise is what the code does."""

import re
from pathlib import Path

import pytest
import yaml

from certs.permissions import keeper_permissions
from tests.docs.test_docs import rows, text
from webhook.admit.remap.choice import choose_carrier
from webhook.allocation.limit import MAX_CHARACTERS
from webhook.config import Config, ServerSettings
from webhook.kube import live, permissions, pod_events, session
from webhook.kube.permissions import Permission, Scope
from webhook.model import names
from webhook.model.choices import Carrier, Profile
from webhook.model.cluster import ClusterFacts
from webhook.model.options import OPTION_NAMES
from webhook.model.version import Version
from webhook.remap.verdict import ExitCode
from webhook.request.placement import Hindrance
from webhook.resolve.node import SETS_KEPT
from webhook.resolve.outputs import NODE_TOPOLOGY_LIMIT
from webhook.server.certificates import spec_of

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
    "PAGE": "## Permissions of the viewer",
    "PUBLISH": "### Permissions",
    "PLAN": "### A person with `gpu-topology topology plan`",
}
"""Headings below which a page has what each list of webhook/kube/permissions.py allows."""
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


@pytest.mark.parametrize("page", ["docs/security.md", "docs/namespaces.md"])
def test_every_permission_label_has_a_row(page: str) -> None:
    documented = {row[0].strip("`") for row in rows(text(page))}
    assert {label for label in documented if label.startswith(names.PREFIX + "allow-")} == PERMISSION_LABELS


def test_every_permission_of_a_program_is_explained_and_no_other() -> None:
    page = "".join(map(text, ("docs/security.md", "docs/analyze.md", "docs/page.md", "docs/verify.md")))
    for program, allowed in lists_of_permissions().items():
        section = page.split(SECTIONS[program] + "\n")[1].split("\n#")[0]
        documented = {
            (scope, *codes(resource), *codes(verbs)) for scope, resource, verbs, *_ in rows(section) if codes(resource)
        }
        assert documented == {
            (SCOPES[permission.scope], permission.resource, *permission.verbs) for permission in allowed
        }, program


def test_every_permission_of_managed_certificates_is_named_and_no_other() -> None:
    section = text("docs/security.md").split("\n### Certificates\n")[1].split("\n#")[0]
    documented = {
        (scope, *codes(resource), *codes(verbs)) for scope, resource, verbs in rows(section) if codes(resource)
    }
    terms = spec_of(Config().certificates, "gpu-topology")
    scopes = {"cluster": "cluster", "own-namespace": "own namespace"}
    assert documented == {
        (scopes[permission.scope], permission.resource, *permission.resource_names, *permission.verbs)
        for permission in keeper_permissions(terms)
    }


def test_every_profile_stands_in_the_table_of_pod_security() -> None:
    section = text("docs/security.md").split("\n## Pod Security\n")[1].split("\n## ")[0]
    documented = {profile for row in rows(section)[2:] for profile in codes(row[0])}
    assert documented == {str(profile) for profile in Profile}


def test_every_exit_code_of_remap_has_a_row() -> None:
    section = text("docs/binding.md").split("\n## 7. The remap program\n")[1].split("\n## ")[0]
    assert {int(row[0]) for row in rows(section) if row[0].isdigit()} == set(ExitCode)


def test_every_option_has_a_row_among_the_defaults_of_a_namespace() -> None:
    section = text("docs/namespaces.md").split("\n## 4. Defaults\n")[1].split("\n## ")[0]
    documented = {key.removeprefix(names.PREFIX) for row in rows(section) for key in codes(row[0])}
    assert documented == {*OPTION_NAMES, "env.NAME"}


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
    section = text("docs/sizing.md").split("\n## Caches\n")[1].split("\n## ")[0]
    documented = {row[0]: row[1] for row in rows(section)}
    kib, mib = 1024, 1024 * 1024
    for what, amount in {
        "sets of GPUs, for each node": SETS_KEPT,
        "Events that wait": pod_events.WAITING,
        "connections to the API server": session.MAX_CONNECTIONS,
        "a pod that is read": live.OBJECT_BYTES // mib,
        "a body of a review": ServerSettings().max_review_bytes // mib,
        "an allocation annotation": MAX_CHARACTERS // kib,
        "a topology on a pod": NODE_TOPOLOGY_LIMIT // kib,
    }.items():
        assert documented[what].startswith(str(amount)), what


def slug(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_to_headings_lead_to_one() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
            page = path.parent / target if target else path
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), f"{path.name}: {target}#{anchor}"


PAGES = ("security", "failure-modes", "compatibility", "sizing", "namespaces", "managed-clusters")


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
    section = text("docs/failure-modes.md").split("\n## As installed\n")[1].split("\n## ")[0]
    documented = {row[0].strip("`"): row for row in rows(section)[2:]}
    values = yaml.safe_load(text("deploy/chart/values.yaml"))["admission"]
    assert list(documented) == registered
    for name, settings in zip(registered, (values["pods"], values["bindings"]), strict=True):
        assert documented[name][2:4] == [f"`{settings['failurePolicy']}`", f"{settings['timeoutSeconds']} s"]
