"""Documents as they are judged and saved: reduced to what is kept of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cluster.redaction.objects import Object, identity, kept
from webhook.cluster.snapshot.certificate_facts import certificates_of
from webhook.cluster.snapshot.model import KnownPod, Snapshot, known_pod


class Documents:
    """What was read. Of thousands of pods, as many are Python objects at a time as one page has."""

    def __init__(self) -> None:
        self.pods: list[KnownPod] = []
        self.others: list[Object] = []

    def add(self, documents: Iterable[Mapping[str, Any]], *, were_kept: bool = False) -> list[Object]:
        """Keep of each document what is judged; returns kind and metadata of each.

        Args:
            documents: As the API server sends them.
            were_kept: Whether they are what was kept of objects: certificates stand in a document of their own then.

        Raises:
            ManifestError: a pod has a field of another type.
        """
        added = []
        for found in reduced(documents, were_kept=were_kept):
            if found["kind"] == "Pod":
                self.pods.append(known_pod(found))
            else:
                self.others.append(found)
            added.append({"kind": found["kind"], "metadata": found["metadata"]})
        return added

    def under(self, others: "Documents") -> "Documents":
        """These and those; an object that both have is as the others have it."""
        both = Documents()
        both.pods = [*others.pods, *self.pods]  # of two with one name the first counts
        every = {(each["kind"], *identity(each)): each for each in (*self.others, *others.others)}
        both.others = list(every.values())
        return both


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot, and what it was made of."""

    snapshot: Snapshot
    documents: Documents
    sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name; empty for a cluster."""
    given: tuple[KnownPod, ...] = ()
    """The pods of the manifests, which a state directory has beside it."""
    others: tuple[str, ...] = ()
    """What else the manifests hold, in words."""


def reduced(documents: Iterable[Mapping[str, Any]], *, were_kept: bool = False) -> Iterator[Object]:
    """What is kept of each document, and what is public of the certificates in it."""
    for document in documents:
        found = kept(document)
        if found is not None:
            yield found
        certificates = None if were_kept else certificates_of(document)
        if certificates is not None:
            yield certificates
