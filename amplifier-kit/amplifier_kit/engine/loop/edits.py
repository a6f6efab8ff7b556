"""Take a call's input as the person who was asked about it has changed it.

An approval system can only say yes or no. One that lets the person change the input says no to the input it asked
about, and offers the capability `approval.edited_input`: a function that takes the id of the call and returns the new
input once, then None. A loop that does not know the capability refuses the call, which is safe; this one sends the new
input the whole way again, through hooks and policies.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.host import Host

__all__ = ["EDITED_INPUT", "MOST_EDITS", "EditError", "edited_input", "with_note"]

logger = logging.getLogger(__name__)

#: The capability that knows what a person has changed.
EDITED_INPUT: Final = "approval.edited_input"
#: How often one call may be changed before it is refused.
MOST_EDITS: Final = 5


class EditError(Exception):
    """A changed input cannot be had, or is none."""


async def edited_input(host: Host, call_id: str) -> dict[str, Any] | None:
    """Return the input that a person wants instead, as an object of its own; None when nobody changed it.

    Raises EditError when whoever knows fails, and for what is no JSON object.
    """
    ask = host.capability(EDITED_INPUT)
    if ask is None:
        return None
    try:
        edited = await maybe_await(ask(call_id))
        return None if edited is None else _checked(edited)
    except asyncio.CancelledError:
        raise
    except EditError:
        raise
    except Exception as error:
        logger.error("The changed input of call %s cannot be had: %s", call_id, error, exc_info=error)
        raise EditError(f"the changed input cannot be had: {error}") from error


def with_note(content: Any, tool_input: dict[str, Any]) -> Any:
    """Return the content of a result that also says what the tool was given: the model asked for something else."""
    note = f"The user changed the input of this call before it ran: {json.dumps(tool_input, ensure_ascii=False)}"
    if isinstance(content, list):
        return [{"type": "text", "text": note}, *content]
    return f"{note}\n\n{content}"


def _checked(edited: Any) -> dict[str, Any]:
    """Return a copy that nobody else holds; raise EditError when this is not what a model could have asked for."""
    if not isinstance(edited, dict):
        raise EditError(f"the changed input is of type {type(edited).__name__}, which no tool takes")
    try:
        text = json.dumps(edited, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        copy: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise EditError(f"the changed input is no JSON: {error}") from error
    if copy != edited:  # such as keys that are no text
        raise EditError("the changed input is no JSON: it is not the same when it is read again")
    return copy
