"""Documents as they are judged and saved: reduced to what is kept of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.analyze.kept import Object, kept
from webhook.cli.snapshot.certificates import certificates_of


def reduced(documents: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """What is kept of each document, and what is public of the certificates in it."""
    for document in documents:
        found = kept(document)
        if found is not None:
            yield found
        certificates = certificates_of(document)
        if certificates is not None:
            yield certificates
