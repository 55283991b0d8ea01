"""The documents of a cluster, reduced to the kept fields."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cluster.redaction.objects import Object, identity, kept
from webhook.cluster.snapshot.certificate_facts import certificates_of
from webhook.cluster.snapshot.model import KnownPod, Snapshot, known_pod
from webhook.cluster.snapshot.template_pods import FoundTemplate


class Documents:
    """The documents that were read. Of thousands of pods, only those of one page are Python objects at a time."""

    def __init__(self) -> None:
        self.pods: list[KnownPod] = []
        self.others: list[Object] = []

    def add(self, documents: Iterable[Mapping[str, Any]], *, were_kept: bool = False) -> list[Object]:
        """Reduce the documents and add them; returns kind and metadata of each.

        Args:
            documents: The documents as the API server sends them.
            were_kept: True if they have been reduced already. Certificates are in their own document then.

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
        """Merge these documents with others. An object in both is taken from the others."""
        both = Documents()
        both.pods = [*others.pods, *self.pods]  # of two pods with one name the first counts
        every = {(each["kind"], *identity(each)): each for each in (*self.others, *others.others)}
        both.others = list(every.values())
        return both


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot and its sources."""

    snapshot: Snapshot
    documents: Documents
    sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name; empty for a cluster."""
    given: tuple[KnownPod, ...] = ()
    """The pods of the manifests, without those of the state directory."""
    others: tuple[str, ...] = ()
    """The further content of the manifests, in words."""
    templates: tuple[FoundTemplate, ...] = ()
    """The templates of pods in the manifests, where a default namespace was given."""


def reduced(documents: Iterable[Mapping[str, Any]], *, were_kept: bool = False) -> Iterator[Object]:
    """Yield the kept fields of each document, and the public facts of its certificates."""
    for document in documents:
        found = kept(document)
        if found is not None:
            yield found
        certificates = None if were_kept else certificates_of(document)
        if certificates is not None:
            yield certificates
