"""Claims and templates are read anew from the API server; whatever it does instead of answering has a sentence."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.api.stand_in import StandIn, Turn, always, kubeconfig, serving, status
from webhook.cluster.api.current_objects import CLAIM_BYTES, LiveClaims
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.cluster.state import Claims
from webhook.decisions.claims.slices import Pools
from webhook.words.errors import ClaimsUnreadable

CLAIM = b'{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1","metadata":{"name":"shared"}}'
MISSING = status(404, "not found", reason="NotFound", details={"name": "shared", "kind": "resourceclaims"})


@asynccontextmanager
async def site(directory: Path, turn: Turn, *, seconds: float = 30.0) -> AsyncIterator[tuple[StandIn, Claims]]:
    async with serving(turn) as stand_in:
        config = kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{stand_in.port}")
        session = connect(config, user_agent="test", seconds=seconds)
        try:
            yield stand_in, LiveClaims(Api(session), Pools)
        finally:
            await session.close()


async def test_a_claim_and_a_template_are_given_as_they_were_sent(tmp_path: Path) -> None:
    async with site(tmp_path, always(CLAIM)) as (stand_in, claims):
        assert await claims.claim("team-a", "shared") == CLAIM
        assert await claims.template("team-a", "two.gpus") == CLAIM
    assert [request.target for request in stand_in.received] == [
        "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/shared",
        "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates/two.gpus",
    ]


async def test_the_longest_claim_that_is_read_is_given(tmp_path: Path) -> None:
    longest = CLAIM.ljust(CLAIM_BYTES)

    async with site(tmp_path, always(longest)) as (_, claims):
        assert await claims.claim("team-a", "shared") == longest
        assert await claims.template("team-a", "shared") == longest


async def test_what_does_not_exist_is_none(tmp_path: Path) -> None:
    async with site(tmp_path, always(MISSING, "404 Not Found")) as (_, claims):
        assert await claims.claim("team-a", "shared") is None
        assert await claims.template("team-a", "shared") is None


@pytest.mark.parametrize(
    ("body", "answer", "problem"),
    [
        (b"404 page not found\n", "404 Not Found", "the API server does not serve resource.k8s.io/v1"),
        (
            status(403, "resourceclaims is forbidden"),
            "403 Forbidden",
            "The webhook needs a role to get resourceclaims and resourceclaimtemplates: set claims.enabled of",
        ),
        (status(401, "Unauthorized"), "401 Unauthorized", "The API server does not know the webhook"),
        (status(429, "too many requests"), "429 Too Many Requests", "too many requests"),
        (status(500, "etcd is away"), "500 Internal Server Error", "The scheduler tries again"),
        (b"[]", "200 OK", "expected a ResourceClaim, found something else"),
        (b"{" + b" " * CLAIM_BYTES, "200 OK", "expected an answer of at most"),
    ],
    ids=["not served", "no role", "no token", "overloaded", "away", "no object", "too long"],
)
async def test_whatever_comes_instead_has_a_sentence(tmp_path: Path, body: bytes, answer: str, problem: str) -> None:
    async with site(tmp_path, always(body, answer)) as (_, claims):
        with pytest.raises(ClaimsUnreadable, match=r"^get ResourceClaim team-a/shared: ") as caught:
            await claims.claim("team-a", "shared")
        assert problem in str(caught.value)


async def test_an_answer_that_does_not_come_in_time_is_none(tmp_path: Path) -> None:
    async def silent(*_: object) -> None:
        return

    async with site(tmp_path, silent, seconds=0.2) as (_, claims):
        with pytest.raises(ClaimsUnreadable, match=r"no answer from .* within 0\.2 s\. The scheduler tries again"):
            await claims.claim("team-a", "shared")


async def test_the_pools_are_those_that_are_at_hand(tmp_path: Path) -> None:
    async with site(tmp_path, always(json.dumps({}).encode())) as (stand_in, claims):
        assert isinstance(claims.pools(), Pools)
    assert stand_in.received == []
