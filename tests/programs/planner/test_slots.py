"""Who gets the next slot, whatever the others have waiting."""

import asyncio
from collections.abc import Iterable

from webhook.programs.planner.slots import Slots

MANY = 1000


async def served(slots: Slots, namespaces: Iterable[str], order: list[str]) -> list[asyncio.Task[None]]:
    """Have requests of these namespaces wait in this order; each says when it has its slot."""

    async def one(namespace: str) -> None:
        async with slots.slot(namespace):
            order.append(namespace)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one(namespace)) for namespace in namespaces]
    await asyncio.sleep(0)
    return tasks


def test_a_namespace_waits_for_one_request_of_each_other_however_many_they_have() -> None:
    async def test() -> None:
        order: list[str] = []
        slots = Slots(2)
        await asyncio.gather(*await served(slots, ["b"] * MANY + ["c"] * MANY + ["a", "a"], order))
        assert order[:2] == ["b", "b"]  # they came first
        assert [index for index, namespace in enumerate(order) if namespace == "a"] == [4, 7]
        assert len(order) == 2 * MANY + 2

    asyncio.run(test())


def test_requests_of_one_namespace_keep_their_order() -> None:
    async def test() -> None:
        order: list[int] = []
        slots = Slots(3)

        async def one(number: int) -> None:
            async with slots.slot("a"):
                order.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(one(number) for number in range(20)))
        assert order == list(range(20))

    asyncio.run(test())


def test_no_more_than_the_slots_are_taken_at_a_time() -> None:
    async def test() -> None:
        slots, taken, most = Slots(3), 0, 0

        async def one(namespace: str) -> None:
            nonlocal taken, most
            async with slots.slot(namespace):
                taken += 1
                most = max(most, taken)
                await asyncio.sleep(0)
                taken -= 1

        await asyncio.gather(*(one(f"team-{number % 4}") for number in range(50)))
        assert (taken, most) == (0, 3)

    asyncio.run(test())


def test_who_waits_no_more_keeps_no_slot_from_others() -> None:
    async def test() -> None:
        order: list[str] = []
        slots = Slots(1)
        async with slots.slot("first"):
            given_up = await served(slots, ["b"] * 5, order)
            others = await served(slots, ["a"], order)
            for task in given_up:
                task.cancel()
            await asyncio.wait(given_up)
        await asyncio.gather(*others)
        async with slots.slot("first"):  # given and cancelled in the same moment
            (late,) = await served(slots, ["b"], order)
        late.cancel()
        await asyncio.wait([late])
        await asyncio.gather(*await served(slots, ["c"], order))
        assert order == ["a", "c"]

    asyncio.run(test())
