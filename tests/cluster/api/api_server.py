"""A small API server for lists and watches: objects with versions, pages, a history that can be compacted."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonpatch

from tests.cluster.api.stand_in import Line, Received, head, status

Manifest = dict[str, Any]


@dataclass
class Collection:
    """The objects of one kind, and everything that happened to them since the last compaction."""

    objects: dict[str, Manifest] = field(default_factory=dict)
    history: list[tuple[int, str, Manifest]] = field(default_factory=list)
    compacted: int = 0


@dataclass
class ApiServer:
    """What a test changes while requests come.

    Attributes:
        page: At most so many objects in one page, whatever is asked for.
        watch_seconds: After so long each watch is ended.
        refuse: Says for the path of a request with which code it is refused; 0: it is not.
        refusal: What it says to that; None: its own words.
        expire_pages: So many continue tokens are refused with 410.
        others: Answers to other paths.
        list_headers: More lines of the head of each list.
    """

    version: int = 100
    page: int = 2
    watch_seconds: float = 60.0
    refuse: Callable[[str], int] = lambda _: 0
    refusal: bytes | None = None
    expire_pages: int = 0
    others: dict[str, Any] = field(default_factory=dict)
    list_headers: tuple[str, ...] = ()
    collections: dict[str, Collection] = field(default_factory=dict)
    lists: int = 0
    watches: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _snapshots: dict[str, tuple[int, list[Manifest]]] = field(default_factory=dict)

    def collection(self, path: str) -> Collection:
        return self.collections.setdefault(path, Collection())

    def put(self, path: str, name: str, **members: Any) -> None:
        """Create or change an object, ``namespace/name`` or ``name``; ``metadata`` among the members is added to."""
        self.version += 1
        collection = self.collection(path)
        namespace, _, own = name.rpartition("/")
        place = {"namespace": namespace} if namespace else {}
        metadata = {**members.pop("metadata", {}), **place, "name": own, "resourceVersion": str(self.version)}
        kind = "MODIFIED" if name in collection.objects else "ADDED"
        collection.objects[name] = {**members, "metadata": metadata}
        self._tell(collection, kind, collection.objects[name])

    def delete(self, path: str, name: str) -> None:
        self.version += 1
        collection = self.collection(path)
        last = collection.objects.pop(name)
        gone = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}}
        self._tell(collection, "DELETED", gone)

    def bookmark(self, path: str) -> None:
        metadata = {"resourceVersion": str(self.version)}
        self._tell(self.collection(path), "BOOKMARK", {"metadata": metadata})

    def say(self, path: str, kind: str, what: Manifest) -> None:
        """An event that is not true of anything."""
        self.version += 1
        self._tell(self.collection(path), kind, what)

    def compact(self) -> None:
        """Forget what happened."""
        for collection in self.collections.values():
            collection.history.clear()
            collection.compacted = self.version

    def restore(self, version: int) -> None:
        """Begin again at an earlier version, without objects and without a history."""
        self.version = version
        for collection in self.collections.values():
            collection.objects.clear()
            collection.history.clear()

    def _tell(self, collection: Collection, kind: str, what: Manifest) -> None:
        collection.history.append((self.version, kind, what))
        self._changed.set()
        self._changed = asyncio.Event()

    async def turn(self, request: Received, line: Line) -> None:
        """For :func:`tests.cluster.api.stand_in.serving`."""
        url = urlsplit(request.target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if code := self.refuse(request.target):
            line.say(status(code, "no") if self.refusal is None else self.refusal, f"{code} No")
        elif "watch" in query:
            self.watches += 1
            await self._watch(url.path, query, line)
        elif request.method == "PATCH":
            self._patch(url.path, request.body, line)
        elif url.path in self.collections:
            self._list(url.path, query, line)
        elif url.path in self.others:
            line.say(json.dumps(self.others[url.path]).encode())
        else:
            parent, _, name = url.path.rpartition("/")
            found = self.collections[parent].objects.get(name) if parent in self.collections else None
            missing = status(404, f"{name} not found", details={"kind": parent.rpartition("/")[2], "name": name})
            line.say(json.dumps(found).encode() if found else missing, "200 OK" if found else "404 Not Found")

    def _list(self, path: str, query: dict[str, str], line: Line) -> None:
        token = query.get("continue", "")
        if token and self.expire_pages:
            self.expire_pages -= 1
            line.say(status(410, "the continue parameter is too old"), "410 Gone")
            return
        if not token:
            self.lists += 1
            token = f"{len(self._snapshots)}:0"
            found = [one for _, one in sorted(self.collection(path).objects.items()) if _is_selected(one, query)]
            self._snapshots[token.partition(":")[0]] = (self.version, found)
        key, _, start = token.partition(":")
        version, objects = self._snapshots[key]
        begin, end = int(start), int(start) + min(self.page, int(query["limit"]))
        metadata = {"resourceVersion": str(version)}
        if end < len(objects):
            metadata["continue"] = f"{key}:{end}"
        body = json.dumps({"kind": "List", "metadata": metadata, "items": objects[begin:end]}).encode()
        line.say(body, "200 OK", *self.list_headers)

    def _patch(self, path: str, operations: bytes, line: Line) -> None:
        """JSON patches of pods only; every one that cannot be applied gets the same answer, as from an API server."""
        _, _, _, _, namespace, _, name = path.split("/")
        pods = "/api/v1/pods"
        found = self.collection(pods).objects.get(f"{namespace}/{name}")
        if found is None:
            line.say(status(404, f"{name} not found", details={"kind": "pods", "name": name}), "404 Not Found")
            return
        try:
            changed = jsonpatch.apply_patch(found, operations.decode())
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            line.say(status(422, "the server rejected our request"), "422 Unprocessable Entity")
            return
        self.put(pods, f"{namespace}/{name}", **changed)
        line.say(json.dumps(self.collection(pods).objects[f"{namespace}/{name}"]).encode())

    async def _watch(self, path: str, query: dict[str, str], line: Line) -> None:
        collection, version = self.collection(path), int(query["resourceVersion"])
        loop = asyncio.get_running_loop()
        until = loop.time() + self.watch_seconds
        line.raw(head("200 OK", "Transfer-Encoding: chunked"))
        if version < collection.compacted:
            gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
            line.raw(_chunk({"type": "ERROR", "object": gone}) + b"0\r\n\r\n")
            return
        told = 0
        history = collection.history
        told = next((place for place, (at, _, _) in enumerate(history) if at > version), len(history))
        while True:
            changed = self._changed
            for _, kind, what in history[told:]:
                if kind not in ("BOOKMARK", "ERROR") and not _is_selected(what, query):
                    continue
                line.raw(_chunk({"type": kind, "object": what}))
            told = len(history)
            if line.writer.is_closing() or loop.time() >= until:
                break
            try:
                async with asyncio.timeout(max(0.0, until - loop.time())):
                    await changed.wait()
            except TimeoutError:
                pass
            told = min(told, len(history))
        line.raw(b"0\r\n\r\n")


def _is_selected(one: Manifest, query: dict[str, str]) -> bool:
    """Whether the object has the name, or the label with its value, that is asked for; other selectors take all."""
    metadata = one.get("metadata", {})
    key, _, value = query.get("labelSelector", "").partition("=")
    if value and metadata.get("labels", {}).get(key) != value:
        return False
    _, _, name = query.get("fieldSelector", "").partition("metadata.name=")
    return not name or metadata.get("name") == name


def _chunk(event: Manifest) -> bytes:
    text = json.dumps(event).encode() + b"\n"
    half = len(text) // 2
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:half], text[half:]))
