"""`/goal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_CLEAR = ("clear", "stop", "off", "reset", "none", "cancel")
_LOOP = "loop-streaming"
_USAGE = "/goal [--max-turns N] CONDITION"


async def goal(chat: Conversation, words: str) -> None:
    """Show the goal, set one that the next prompt pursues, or give it up."""
    state = chat.coordinator.session_state
    known = state.get("goal")
    if not words:
        condition = known.get("condition") if isinstance(known, dict) else None
        chat.screen.show(plain(f"goal: {condition}" if condition else f"there is no goal: {_USAGE}"))
        return
    if words.lower() in _CLEAR:
        state.pop("goal", None)
        chat.screen.show("there is no goal any more" if known else "there was no goal")
        return
    cap, condition = _parsed(words)
    if condition is None:
        chat.screen.show(f"the number of turns is one from 1 on: {_USAGE}")
        return
    state["goal"] = {"condition": condition, "cap": cap}
    turns = f" in at most {cap} turns" if cap else ""
    chat.screen.show(plain(f"goal: {condition}{turns}; your next prompt starts the work"))
    if chat.loop != _LOOP:
        chat.screen.show(f"note: the loop {chat.loop} may know nothing of goals; {_LOOP} does")


def _parsed(words: str) -> tuple[int | None, str | None]:
    """Return the cap and the condition; None in place of a condition when the cap is none."""
    if not words.startswith("--max-turns"):
        return None, words
    rest = words.removeprefix("--max-turns").lstrip("= ")
    number, _, condition = rest.partition(" ")
    if not number.isdecimal() or int(number) < 1 or not condition.strip():
        return None, None
    return int(number), condition.strip()
