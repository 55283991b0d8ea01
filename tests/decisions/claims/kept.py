"""Claims that a test has at hand, in the place of an API server."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.decisions.claims.slices import Pools
from webhook.words.errors import ClaimsUnreadable


@dataclass
class KeptClaims:
    """Objects as JSON, by kind and name; what was asked for is remembered."""

    objects: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    """By ``claim`` or ``template``, and name, whatever the namespace."""
    published: Pools = field(default_factory=Pools)
    problem: str = ""
    """Why nothing can be read."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    deadlines: list[float | None] = field(default_factory=list)

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim."""
        return self._get("claim", namespace, name, deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate."""
        return self._get("template", namespace, name, deadline)

    def pools(self) -> Pools:
        """The devices."""
        return self.published

    def _get(self, kind: str, namespace: str, name: str, deadline: float | None) -> bytes | None:
        self.asked.append((kind, namespace, name))
        self.deadlines.append(deadline)
        if self.problem:
            raise ClaimsUnreadable(self.problem)
        return self.objects.get((kind, name))
