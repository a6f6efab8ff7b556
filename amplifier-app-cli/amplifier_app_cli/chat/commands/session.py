"""Slash commands about the conversation: /clear, /compact, /undo, /save, /rename, /fork and /goal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.chat.session_data import messages_of, replace_messages
from amplifier_app_cli.ui.layout import counted, folded, single_line
from amplifier_app_cli.ui.menu import Option
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.paths import expanded
from amplifier_foundation.sessions.checkpoints import SESSION_UNDO, Checkpoints
from amplifier_foundation.sessions.export import export
from amplifier_foundation.sessions.fork import fork_session
from amplifier_foundation.sessions.metadata import read_summary
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.sessions.turns import count_turns, slice_to_turn, turn_boundaries
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_foundation.sessions.checkpoints import Checkpoint, Checkpoints


async def clear(chat: Conversation, words: str) -> None:
    """Forget the conversation; the log and a backup of the transcript keep it."""
    await replace_messages(chat, [])
    chat.preface = ""
    chat.screen.show("the conversation starts over; the log keeps what was said")


async def compact(chat: Conversation, words: str) -> None:
    """Compact the context, unless it does so at every request anyway."""
    context = chat.coordinator.get("context")
    before = len(await messages_of(chat))
    if hasattr(context, "should_compact") and await maybe_await(context.should_compact()):
        await maybe_await(context.compact())
        await chat.runtime.save_messages()
        chat.screen.show(f"{before} messages before, {len(await messages_of(chat))} now")
        return
    text = (
        "nothing to do: the conversation is kept whole, and shortened for the model at every request; /context shows "
        "how full the context is, /clear starts over"
    )
    chat.screen.show(folded(text, chat.width - 1))


async def undo(chat: Conversation, words: str) -> None:
    """Remove the last turn from the conversation, and restore the files that its tools wrote.

    Files come first: if another program has changed one of them, nothing is undone without `force`.
    """
    messages = await messages_of(chat)
    turns = count_turns(messages)
    if not turns:
        chat.screen.show("there is no turn to undo")
        return
    checkpoints = Checkpoints(chat.runtime.folder)
    first = _first_since(checkpoints, messages[turn_boundaries(messages)[-1]])
    restored = checkpoints.restore(first.id, force=words == "force") if first is not None else None
    await replace_messages(chat, slice_to_turn(messages, turns - 1))
    files = restored.to_event() if restored is not None else {}
    await chat.runtime.record_event(SESSION_UNDO, {"turn": turns, "turns_left": turns - 1, **files})
    lines = [f"turn {turns} is undone; {turns - 1} left"]
    if restored is not None:
        lines += [f"restored: {path}" for path in restored.put_back]
        lines += [f"removed: {path}" for path in restored.removed]
        lines += [f"unchanged: {line}" for line in restored.left]
    else:
        lines.append("its tools wrote no files that can be restored")
    chat.screen.show(plain("\n".join(lines)))


def _first_since(checkpoints: Checkpoints, prompt: dict[str, Any]) -> Checkpoint | None:
    """Return the first write after a prompt that was not undone, or None.

    Compared by time, because undone and cleared turns no longer have a number in the conversation.
    """
    metadata = prompt.get("metadata")
    try:
        asked = datetime.fromisoformat(str(metadata["timestamp"]) if isinstance(metadata, dict) else "")
    except (KeyError, ValueError):
        return None
    asked = asked if asked.tzinfo is not None else asked.replace(tzinfo=UTC)
    written = (one for one in checkpoints.list() if one.made >= asked and one.restored_to is None)
    return next((one for one in written if not one.is_undone), None)


async def save(chat: Conversation, words: str) -> None:
    """Write the conversation to a file, whose suffix gives the format; by default into the session's folder."""
    await chat.runtime.save_messages()
    folder = chat.runtime.folder
    summary = read_summary(folder)
    if summary is None:
        chat.screen.show(plain(f"there is nothing to save: {folder} does not exist"))
        return
    name = f"transcript_{datetime.now():%Y%m%d_%H%M%S}.json"
    target = chat.runtime.prepared.project / expanded(words) if words else folder / name
    written = export(summary, target, None if target.suffix else "md", scrub=chat.scrub)
    for warning in written.warnings:
        chat.screen.show(plain(f"note: {warning}"))
    chat.screen.show(plain(f"saved: {written.path}"))


async def rename(chat: Conversation, words: str) -> None:
    """Give the session a name by which it can be resumed."""
    if not words:
        chat.screen.show("which name? /rename NAME")
        return
    store = SessionStore(chat.runtime.prepared.home)
    renamed = store.rename(str(chat.runtime.folder), words)
    chat.screen.show(plain(f"the session is called {renamed.name!r}"))


#: Sessions to choose from.
_MOST_LISTED = 50


async def resume(chat: Conversation, words: str) -> None:
    """Leave this session and resume another one of the project, which the user chooses or names."""
    store = SessionStore(chat.runtime.prepared.home)
    if words:
        found = store.find(words, chat.runtime.prepared.project).id
    else:
        listed = store.list(chat.runtime.prepared.project)[:_MOST_LISTED]
        options = [
            Option(one.id[:8], single_line(one.name or one.first_prompt or "no prompt yet"))
            for one in listed
            if one.id != chat.runtime.session_id
        ]
        if not options:
            chat.screen.show("this project has no other session")
            return
        if not chat.screen.is_interactive:
            chat.screen.show("which session? /resume SESSION")
            return
        picked = await chat.choose("Resume which session?", options, at=0)
        if picked is None:
            chat.screen.show("this session continues")
            return
        found = next(one.id for one in listed if one.id.startswith(picked))
    if found == chat.runtime.session_id:
        chat.screen.show("that is this session")
        return
    chat.next_session = found
    chat.leave()


async def fork(chat: Conversation, words: str) -> None:
    """Copy the session, up to a turn, into a new one; this chat stays in the original."""
    turn, _, name = words.partition(" ")
    if turn and not turn.isdecimal():
        chat.screen.show("a turn is a number: /fork [TURN [NAME]]")
        return
    await chat.runtime.save_messages()
    made = fork_session(chat.runtime.folder, at_turn=int(turn) if turn else None, name=name.strip() or None)
    for warning in made.warnings:
        chat.screen.show(plain(f"note: {warning}"))
    text = f"forked: {made.session_id}, {counted(made.turns, 'turn')}; amplifier resume {made.session_id[:8]}"
    chat.screen.show(folded(text, chat.width - 1))


_CLEAR = ("clear", "stop", "off", "reset", "none", "cancel")
_LOOP = "loop-streaming"
_USAGE = "/goal [--max-turns N] CONDITION"


async def goal(chat: Conversation, words: str) -> None:
    """Show the goal, set one that the next prompt pursues, or clear it."""
    state = chat.coordinator.session_state
    known = state.get("goal")
    if not words:
        condition = known.get("condition") if isinstance(known, dict) else None
        chat.screen.show(plain(f"goal: {condition}" if condition else f"no goal is set: {_USAGE}"))
        return
    if words.lower() in _CLEAR:
        state.pop("goal", None)
        chat.screen.show("the goal is cleared" if known else "no goal was set")
        return
    cap, condition = _parsed(words)
    if condition is None:
        chat.screen.show(f"the number of turns must be 1 or more: {_USAGE}")
        return
    state["goal"] = {"condition": condition, "cap": cap}
    turns = f" in at most {cap} turns" if cap else ""
    chat.screen.show(plain(f"goal: {condition}{turns}; your next prompt starts the work"))
    if chat.loop != _LOOP:
        chat.screen.show(f"note: the loop {chat.loop} may not support goals; {_LOOP} does")


def _parsed(words: str) -> tuple[int | None, str | None]:
    """Return the cap and the condition; the condition is None if the cap is invalid."""
    if not words.startswith("--max-turns"):
        return None, words
    rest = words.removeprefix("--max-turns").lstrip("= ")
    number, _, condition = rest.partition(" ")
    if not number.isdecimal() or int(number) < 1 or not condition.strip():
        return None, None
    return int(number), condition.strip()
