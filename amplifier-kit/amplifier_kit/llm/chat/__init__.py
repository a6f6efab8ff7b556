"""Chat completions, the protocol of OpenAI that most servers speak.

`ChatProvider` is a complete provider except for its name. Its parts can be used alone: `chat_client` creates the SDK's
client for an address, `chat_payload` writes a call, `read_chat` sends it and feeds an answer.
"""

from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.errors import WarmingUpError, clearer_error, refuses_format
from amplifier_kit.llm.chat.provider import (
    CHAT,
    NO_KEY,
    ChatProvider,
    chat_client,
    describe,
    is_for_chat,
    listed_models,
    server_url,
)
from amplifier_kit.llm.chat.request import ORIGIN, chat_payload, messages_of
from amplifier_kit.llm.chat.response import ChatReader, ServedError, ThinkTags, read_chat

__all__ = [
    "CHAT",
    "NO_KEY",
    "ORIGIN",
    "ChatConfig",
    "ChatProvider",
    "ChatReader",
    "ServedError",
    "ThinkTags",
    "WarmingUpError",
    "chat_client",
    "chat_payload",
    "clearer_error",
    "describe",
    "is_for_chat",
    "listed_models",
    "messages_of",
    "read_chat",
    "refuses_format",
    "server_url",
]
