"""`/undo`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation
    from amplifier_foundation.sessions.checkpoints import Checkpoint, Checkpoints


async def undo(chat: Conversation, words: str) -> None:
    """Take the last turn out of the conversation, and put back the files that its tools wrote.

    Files first: when somebody else has changed one of them, nothing is undone, unless `force` is said.
    """
    from amplifier_app_cli.chat.session_data import messages_of, replace
    from amplifier_foundation.sessions.checkpoints import Checkpoints
    from amplifier_foundation.sessions.turns import count_turns, slice_to_turn, turn_boundaries

    messages = await messages_of(chat)
    turns = count_turns(messages)
    if not turns:
        chat.screen.show("there is no turn to take back")
        return
    checkpoints = Checkpoints(chat.runtime.folder)
    first = _first_since(checkpoints, messages[turn_boundaries(messages)[-1]])
    restored = checkpoints.restore(first.id, force=words == "force") if first is not None else None
    await replace(chat, slice_to_turn(messages, turns - 1))
    lines = [f"turn {turns} is taken back; the conversation has {turns - 1} now"]
    if restored is not None:
        lines += [f"put back: {path}" for path in restored.put_back]
        lines += [f"removed: {path}" for path in restored.removed]
        lines += [f"left as it is: {line}" for line in restored.left]
    else:
        lines.append("its tools wrote no files that could be put back")
    chat.screen.show(plain("\n".join(lines)))


def _first_since(checkpoints: Checkpoints, prompt: dict[str, Any]) -> Checkpoint | None:
    """Return the first write that came after a prompt and still counts, None when there is none.

    By time: turns that were taken back or cleared have no number in the conversation any more.
    """
    metadata = prompt.get("metadata")
    try:
        asked = datetime.fromisoformat(str(metadata["timestamp"]) if isinstance(metadata, dict) else "")
    except (KeyError, ValueError):
        return None
    asked = asked if asked.tzinfo is not None else asked.replace(tzinfo=UTC)
    written = (one for one in checkpoints.list() if one.made >= asked and one.restored_to is None)
    return next((one for one in written if not one.is_undone), None)
