"""Reviews of pods that the API server takes, made by a grammar: work grows with their length, whatever is long."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

from tests.fuzz import effort
from tests.fuzz.grammar import Recipe, read_recipe, recipes
from tests.fuzz.scenes import Scene, pod_review, written
from tests.fuzz.targets import review
from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, policy
from tests.pods import ALL_ALLOWED
from webhook.decisions.configuration import AdmitPolicy

SIZE = 8 * 1024
"""Bytes of the long fields of the smaller of two pods."""
MOST, FIXED_CALLS = 2.5, 1000
"""Twice the bytes take at most so many times the calls, and so many more: a limit that is reached costs a message."""


def seeds() -> Iterator[bytes]:
    """Each field and each text."""
    for number, recipe in enumerate(recipes()):
        yield json.dumps(recipe | {"allowed": bool(number % 2), "hami": "2.10.0" if number % 3 else "2.9.0"}).encode()


def target(data: bytes) -> None:
    """Fails where an answer breaks a law, or where the work for a pod is more than in proportion to its length.

    Two fields may take work with their product, as variables and the containers that get them do, up to the limits of
    the configuration. So only of one field twice the length is compared.
    """
    recipe, document = _read(data)
    if recipe is None:
        return
    small = scene_of(recipe, document, SIZE)
    reply = effort.within(review.FIXED_CALLS + int(review.CALLS_EACH * len(small.body)), lambda: decide(small))
    assert reply is not None, "a pod of the API that cannot be read"
    review.check_reply(small, reply)
    alone = replace(recipe, parts=recipe.parts[:1])
    check_growth(scene_of(alone, document, SIZE), scene_of(alone, document, 2 * SIZE))


def decide(scene: Scene) -> bytes | None:
    """The answer to the review of a scene."""
    return review.answer(scene, scene.body)


def check_growth(small: Scene, large: Scene, work: Callable[[Scene], object] = decide) -> None:
    """Fails where a scene that is twice as long takes more than in proportion."""
    once, twice = (effort.count_calls(partial(work, scene)) for scene in (small, large))
    if twice > MOST * once + FIXED_CALLS:
        raise effort.TooMuchWork(f"{once} calls for {len(small.body)} bytes, {twice} for {len(large.body)}")


def scene_of(recipe: Recipe, document: object, size: int) -> Scene:
    """The review of the pod with so many bytes."""
    found = document if isinstance(document, dict) else {}
    return Scene(
        written(pod_review(recipe.grown(size))),
        of=ALL_ALLOWED if found.get("allowed") is True else TEAM_A,
        versions=HAMI_2_10_0 if found.get("hami") == "2.10.0" else HAMI_2_9,
        rules=_rules(),
    )


@cache
def _rules() -> AdmitPolicy:
    return policy(claims={"enabled": True})


def _read(data: bytes) -> tuple[Recipe | None, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None, None
    return read_recipe(document), document
