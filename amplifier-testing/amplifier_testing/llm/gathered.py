"""An answer that waits for others, to prove that they are all under way at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from amplifier_testing.llm.reply import Reply

if TYPE_CHECKING:
    from amplifier_testing.llm.server import ModelServer

__all__ = ["Gathered"]


@dataclass(frozen=True)
class Gathered(Reply):
    """Begin at once, and continue after the first piece only when `count` answers are under way."""

    server: ModelServer | None = None
    count: int = 0

    @classmethod
    def of(cls, reply: Reply, server: ModelServer, count: int) -> Gathered:
        """Return a reply that waits until `server` is giving `count` answers at once."""
        given = {field.name: getattr(reply, field.name) for field in fields(Reply)}
        return cls(**given, server=server, count=count)

    async def pause(self, number: int) -> None:
        """Wait for the others before the second piece."""
        await super().pause(number)
        assert self.server is not None
        while number == 1 and self.server.most_at_once < self.count:  # noqa: ASYNC110  # a number
            await asyncio.sleep(0.005)
