"""The parts of the chart that follow from the code; ``make chart`` writes them, and a test finds them stale."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from webhook import __version__
from webhook.cluster.api.permissions import (
    AGENT,
    AGENT_TAINTS,
    CLAIMS,
    PLANNER,
    READER,
    VIEW,
    WEBHOOK,
    Permission,
    certificates,
)
from webhook.decisions.configuration import Config, parse_config

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
SCOPES = {
    "cluster": "cluster",
    "own-namespace": "ownNamespace",
    "topologies": "topologies",
    "default-namespace": "defaultNamespace",
    "pods": "pods",
}
"""From values of ``Scope`` to members of ``files/roles.yaml``."""
ROLES_HEAD = "# What each program may do, from the lists in the code. Written by make chart.\n"
TABLE_HEAD = "| value | default | meaning |\n|---|---|---|\n"
BEGIN, END = "<!-- values: written by make chart -->\n", "<!-- end of values -->\n"
KEY = re.compile(r'( *)([A-Za-z_]\w*|"[^"]+"):(?: (.*))?$')


_NAMES = parse_config({}).certificates
CERTIFICATES = certificates(_NAMES.secret, _NAMES.webhook_configuration)
PROGRAMS: Mapping[str, tuple[Permission, ...]] = {
    "agent": AGENT,
    "agent-taints": AGENT_TAINTS,
    "webhook": WEBHOOK,
    "claims": CLAIMS,
    "planner": PLANNER,
    "certificates": CERTIFICATES,
    "reader": READER,
    "view": VIEW,
}
"""What is in ``files/roles.yaml``, by the name under which the templates look for it."""


def roles() -> str:
    """``files/roles.yaml``: rules of Roles, by program and by scope."""
    by_program = {name: _rules(permissions) for name, permissions in PROGRAMS.items()}
    return ROLES_HEAD + yaml.safe_dump(by_program, sort_keys=False)


def schema() -> str:
    """``values.schema.json`` with the configuration file as the program reads it."""
    document = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    _, settings = msgspec.json.schema_components([Config])
    ours = {name: kind for name, kind in document["$defs"].items() if "title" not in kind}
    return json.dumps(document | {"$defs": ours | _without_defaults(settings)}, indent=2) + "\n"


def metadata() -> str:
    """``Chart.yaml`` with the version of the code."""
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^(version|appVersion): .*$", rf"\1: {__version__}", text, flags=re.MULTILINE)
    return re.sub(r"^( +image: .*):[^:\n]+$", rf"\1:{__version__}", text, flags=re.MULTILINE)


def readme() -> str:
    """The README of the chart with the table of its values."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    rows = "".join(f"| `{value.key}` | {value.default} | {value.meaning} |\n" for value in documented_values())
    return f"{before}{BEGIN}{TABLE_HEAD}{rows}{END}{after}"


GENERATED: Mapping[Path, Callable[[], str]] = {
    CHART / "Chart.yaml": metadata,
    CHART / "README.md": readme,
    CHART / "files" / "roles.yaml": roles,
    CHART / "values.schema.json": schema,
}


@dataclass(frozen=True)
class Value:
    """A row of the table."""

    key: str
    """With dots."""
    default: str
    """As JSON between backticks; empty for a section."""
    meaning: str
    """The comment above it; empty if there is none."""


def documented_values() -> Iterator[Value]:
    """The keys of ``values.yaml`` in their order, each with the comment above it."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    defaults = yaml.safe_load(text)
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("# "):
            comment.append(line.lstrip().removeprefix("# "))
        elif key := KEY.fullmatch(line):
            path[len(key[1]) // 2 :] = [key[2].strip('"')]
            yield Value(".".join(path), _default(defaults, path), " ".join(comment))
            comment = []
        else:
            comment = []


def _default(defaults: Any, path: Iterable[str]) -> str:
    for name in path:
        defaults = defaults[name]
    return "" if isinstance(defaults, dict) and defaults else f"`{json.dumps(defaults)}`"


def _rules(permissions: Iterable[Permission]) -> dict[str, list[dict[str, list[str]]]]:
    scopes: dict[str, list[dict[str, list[str]]]] = {}
    for one in permissions:
        rule = {"apiGroups": [one.group], "resources": [one.resource], "verbs": list(one.verbs)}
        if one.resource_names:
            rule["resourceNames"] = list(one.resource_names)
        scopes.setdefault(SCOPES[str(one.scope)], []).append(rule)
    return scopes


def _without_defaults(part: Any) -> Any:
    """Helm fills nothing in, so defaults there could only go stale."""
    if isinstance(part, dict):
        return {key: _without_defaults(value) for key, value in part.items() if key != "default"}
    return part
