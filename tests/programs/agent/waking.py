"""Rounds of an agent, one at a time, each with a connection of its own."""

import asyncio

from webhook.programs.agent.rounds import Agent


def wake(agent: Agent) -> float:
    """One round; returns the seconds until the next."""

    async def one_round() -> float:
        seconds = await agent.wake()
        await agent.close()
        return seconds

    return asyncio.run(one_round())
