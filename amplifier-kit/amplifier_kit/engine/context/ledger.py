"""All messages of a session, in order; none is ever changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from amplifier_kit.engine.context.conversation import Conversation
from amplifier_kit.engine.context.messages import Message, normalize_message

__all__ = ["Ledger"]

logger = logging.getLogger(__name__)

SYSTEM_ROLES: Final = frozenset({"system", "developer"})


class Ledger:
    """The messages, and indexes of instructions and conversation."""

    def __init__(self, max_tool_result_bytes: int) -> None:
        self._max_tool_result_bytes = max_tool_result_bytes
        self._messages: list[Message] = []
        #: System messages that were added as instructions; those that hooks injected are part of the conversation.
        self.instructions: list[Message] = []
        self.talk = Conversation()
        #: Counts all changes.
        self.version = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: Any) -> Message:
        """Take a copy of a message in, stamped with the time, and return that copy.

        Raises TypeError or ValueError for what is no message; see `normalize_message`.
        """
        taken = normalize_message(message, stamp=True, max_tool_result_bytes=self._max_tool_result_bytes)
        self._append(taken)
        return taken

    def replace(self, messages: Iterable[Any]) -> list[Message]:
        """Start over with copies of `messages` and return them; what is no message is left out with a warning."""
        taken: list[Message] = []
        for number, message in enumerate(messages, 1):
            try:
                taken.append(normalize_message(message, stamp=False, max_tool_result_bytes=self._max_tool_result_bytes))
            except (TypeError, ValueError) as error:
                logger.warning("Message %d of the history is left out: %s", number, error)
        self.clear()
        for message in taken:
            self._append(message)
        return taken

    def clear(self) -> None:
        """Forget everything."""
        self._messages = []
        self.instructions = []
        self.talk = Conversation()
        self.version += 1

    def since(self, position: int) -> list[Message]:
        """Return copies of the messages from `position` on; nested values are shared and not to be changed."""
        return [dict(message) for message in self._messages[position:]]

    def _append(self, message: Message) -> None:
        self.version += 1
        self._messages.append(message)
        if message["role"] in SYSTEM_ROLES and not _from_hook(message):
            self.instructions.append(message)
        else:
            self.talk.append(message)


def _from_hook(message: Message) -> bool:
    metadata = message.get("metadata")
    return isinstance(metadata, dict) and metadata.get("source") == "hook"
