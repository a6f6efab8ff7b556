"""Reach the budget of the process that started this one: there, others draw on the same limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

#: What is asked for: a question to the model, a tool call, or the place of a child.
Asked = Literal["turns", "tool_calls", "fan_out"]


@dataclass(frozen=True)
class HomeLine:
    """The way to the budget at home."""

    #: Asks for something before it is done; returns why not, empty when it may be.
    reserve: Callable[[Asked], Awaitable[str]]
    #: Tells that the place of a child is free again.
    left: Callable[[], None]
    #: Tells that something was spent, by whomever here.
    on_spent: Callable[[], None]

    async def ask(self, name: Asked) -> str:
        """Return why something may not be done, empty when it may."""
        try:
            return await self.reserve(name)
        except Exception as error:  # whatever is wrong with the line: nobody knows what is left
            return f"the budget cannot be asked for: {type(error).__name__}: {error}"

    async def take_place(self) -> str:
        """Ask for the place of a child; one that is granted to somebody who was cancelled meanwhile is given back."""
        asking = asyncio.ensure_future(self.ask("fan_out"))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(self._decline)
            raise

    def _decline(self, asked: asyncio.Future[str]) -> None:
        if not asked.cancelled() and asked.result() == "":
            self.left()
