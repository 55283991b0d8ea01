"""What the cluster tells of the claims of one pod, as far as the caller may read it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from webhook.claims.known import KnownClaims, claim_title, template_title
from webhook.claims.objects import ResourceClaim, decode_claim, decode_slice, decode_template
from webhook.claims.pod import MOST_CLAIMS, claim_names
from webhook.claims.slices import Pools, SlicePart, slice_part
from webhook.cli.cluster.asking import NO_ANSWER, Cluster, attempt
from webhook.config import ClaimSettings
from webhook.kube.api_server import Object
from webhook.manifest.pods import to_json
from webhook.model.pod import Pod

_T = TypeVar("_T")


def read_claims(cluster: Cluster, pod: Pod, namespace: str, settings: ClaimSettings, node: str) -> KnownClaims:
    """The claims of the pod, the templates of those that are not made yet, and the slices of its node.

    Args:
        cluster: The API server.
        pod: The pod.
        namespace: Its namespace.
        settings: Which drivers publish GPUs.
        node: Where the pod is; empty: open, so that no slices are read.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    reading, names = _Reading(cluster), claim_names(pod)

    def claim(name: str) -> Awaitable[Object | None]:
        return cluster.api.resource_claim(namespace, name)

    def template(name: str) -> Awaitable[Object | None]:
        return cluster.api.resource_claim_template(namespace, name)

    claims = reading.objects(names.by_entry.values(), claim, decode_claim, claim_title)
    missing = [name for entry, name in names.templates.items() if names.by_entry.get(entry) not in claims]
    templates = reading.objects(missing, template, decode_template, template_title)
    pools = reading.pools(node, settings) if node and _has_gpus(claims.values(), settings) else Pools()
    return KnownClaims(
        claims=claims,
        templates=templates,
        pools=pools,
        unread=reading.unread,
        pools_problem=reading.pools_problem,
    )


def _has_gpus(claims: Iterable[ResourceClaim], settings: ClaimSettings) -> bool:
    """Whether some claim was given GPUs."""
    results = (result for claim in claims if claim.allocation for result in claim.allocation.results or ())
    return any(settings.driver(result.driver) for result in results)


class _Reading:
    """Reads objects, and remembers why some cannot be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.unread: dict[str, str] = {}
        self.pools_problem = ""

    def objects(
        self,
        names: Iterable[str],
        ask: Callable[[str], Awaitable[Object | None]],
        decode: Callable[[bytes, str], _T],
        title: Callable[[str], str],
    ) -> dict[str, _T]:
        """Those that exist and can be read."""
        found = {}
        for name in list(dict.fromkeys(names))[:MOST_CLAIMS]:
            read = self._read(title(name), ask(name), decode)
            if read is not None:
                found[name] = read
        return found

    def _read(self, title: str, answer: Awaitable[Object | None], decode: Callable[[bytes, str], _T]) -> _T | None:
        """The object; ``None`` if there is none, or if it cannot be read."""

        def read() -> tuple[_T | None]:
            document = self._cluster.ask(answer)
            return (decode(to_json(document, title), title) if document else None,)

        found, problem = attempt(read, None)
        if found is None:
            self.unread[title] = problem or NO_ANSWER
        return found[0] if found else None

    def pools(self, node: str, settings: ClaimSettings) -> Pools:
        """What drivers of GPUs publish on a node."""
        source = f"a ResourceSlice of node {node}"

        def read() -> list[SlicePart | None]:
            found = self._cluster.ask(self._cluster.api.resource_slices(node=node))
            return [slice_part(decode_slice(to_json(document, source), source), settings) for document in found]

        parts, problem = attempt(read, None)
        if parts is None:
            self.pools_problem = problem or NO_ANSWER
        return Pools(part for part in parts or () if part)
