"""Kubeconfig files that say different things of the same names, for kubectl and for us."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LAB = {"server": "https://lab:6443", "certificate-authority": "ca.crt"}
FAR = {"server": "https://far:6443", "insecure-skip-tls-verify": True}


def config(current: str | None = None, **lists: Mapping[str, object]) -> dict[str, object]:
    """A kubeconfig; each list by names."""
    members = {"clusters": "cluster", "contexts": "context", "users": "user"}
    document: dict[str, object] = {"apiVersion": "v1", "kind": "Config"}
    for kind, found in lists.items():
        document[kind] = [{"name": name, members[kind]: value} for name, value in found.items()]
    return document if current is None else document | {"current-context": current}


FIRST = config(
    "",
    clusters={"lab": LAB},
    contexts={"mine": {"cluster": "lab", "user": "me", "namespace": "team-a"}},
    users={"me": {"client-certificate": "../keys/me.crt", "client-key": "me.key"}},
)
SECOND = config(
    "yours",
    clusters={"lab": {**FAR, "tls-server-name": "x"}, "far": FAR},
    contexts={"mine": {"cluster": "far", "user": "you"}, "yours": {"cluster": "far", "user": "you"}},
    users={"me": {"token": "of-another-file"}, "you": {"token": "abc"}},
)
THIRD = config("mine")


@dataclass(frozen=True)
class Shape:
    """What is in KUBECONFIG, and which context is asked for."""

    files: dict[str, object]
    """Contents by paths, None for a file that is not there."""
    context: str = ""
    usable: bool = True

    def write(self, directory: Path) -> list[Path]:
        """The paths, as they stand in KUBECONFIG."""
        paths = []
        for name, content in self.files.items():
            path = directory / name
            paths.append(path)
            if content is None:
                continue
            path.parent.mkdir(exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        for name in ("a/ca.crt", "a/me.key", "keys/me.crt", "b/ca.crt"):
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(f"what {name} holds")
        return paths


SHAPES = {
    "one file": Shape({"b/config": SECOND}),
    "the first that sets it names the current context": Shape({"a/one": FIRST, "b/two": SECOND, "c": THIRD}),
    "a name is that of the first file with it": Shape({"a/one": FIRST, "b/two": SECOND}, "mine"),
    "nothing of the other file is added to it": Shape({"b/two": SECOND, "a/one": FIRST}, "mine"),
    "a file that is not there is left out": Shape({"gone": None, "a/one": FIRST, "b/two": SECOND}, "mine"),
    "a context of one file, its cluster of another": Shape(
        {"c": config(contexts={"c": {"cluster": "lab", "user": "you"}}), "a/one": FIRST, "b/two": SECOND}, "c"
    ),
    "an empty file": Shape({"empty": "", "b/two": SECOND}),
    "no user": Shape({"c": config("c", clusters={"c": FAR}, contexts={"c": {"cluster": "c"}})}),
    "no such context": Shape({"a/one": FIRST, "b/two": SECOND}, "gone", usable=False),
    "no current context": Shape({"a/one": FIRST}, usable=False),
    "a file that is no YAML": Shape({"odd": "{a: [", "b/two": SECOND}, usable=False),
    "a file that is a list": Shape({"odd": "[1]", "b/two": SECOND}, usable=False),
    "one name twice in one file": Shape(
        {"odd": {**SECOND, "users": [{"name": "you", "user": {"token": each}} for each in "ab"]}}, usable=False
    ),
    "a cluster that is not there": Shape(
        {"c": config("c", contexts={"c": {"cluster": "gone", "user": "you"}}), "b/two": SECOND}, usable=False
    ),
}
