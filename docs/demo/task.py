"""A task that a Python program runs."""

import asyncio

import kogniterm


async def main() -> None:
    """Run one task and print its answer."""
    async with kogniterm.open_agent(".") as agent:
        answer = await agent.run("Hello")
        print(answer.stop, "|", answer.text)


asyncio.run(main())
