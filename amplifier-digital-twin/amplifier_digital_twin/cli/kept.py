"""Ask the keeper of a universe for something, for a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_digital_twin.cli.answers import say
from amplifier_digital_twin.control_client import Output, ask, connect
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found, Registry


def find(given: str, *, alive: bool = True) -> Found:
    """Return the universe that is meant; raise TwinError when it is unknown, another user's, or dead but needed."""
    found = Registry.find().get(given)
    if not found.is_mine:
        raise TwinError(
            "not_yours", f"{found.state.id} belongs to user {found.state.owner}", "ask its owner, or launch one"
        )
    if alive and not found.is_alive:
        raise TwinError(
            "universe_dead",
            f"the keeper of {found.state.id} has ended without destroying it",
            f"`amplifier-digital-twin destroy {given}` removes what it left; `logs {given}` tells what it did last",
        )
    return found


def request(
    given: str,
    op: str,
    *,
    progress: Callable[[str], None] | None = say,
    output: Output | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Ask for something and return the result, with the universe's identifier; raises TwinError."""
    found = find(given)
    result = ask(connect(found.place.socket), op, arguments, progress=progress, output=output)
    return {"id": found.state.id, **result}
