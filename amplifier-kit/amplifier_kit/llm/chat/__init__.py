"""Chat completions, the protocol of OpenAI's that most servers speak: for providers of such servers.

`ChatProvider` is a whole provider but for its name. Its parts can be used alone: `chat_client` makes the SDK's client
for an address, `chat_payload` writes a call, `read_chat` asks and feeds an answer.
"""

from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.errors import WarmingUpError, is_about_format, sharpened
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
from amplifier_kit.llm.chat.response import ChatReading, ServedError, ThinkTags, read_chat

__all__ = [
    "CHAT",
    "NO_KEY",
    "ORIGIN",
    "ChatConfig",
    "ChatProvider",
    "ChatReading",
    "ServedError",
    "ThinkTags",
    "WarmingUpError",
    "chat_client",
    "chat_payload",
    "describe",
    "is_about_format",
    "is_for_chat",
    "listed_models",
    "messages_of",
    "read_chat",
    "server_url",
    "sharpened",
]
