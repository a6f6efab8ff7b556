"""Chat completions, the protocol of OpenAI's that most servers speak: for providers of such servers.

`ChatProvider` is a whole provider but for its name. Its parts can be used alone: `chat_client` makes the SDK's client
for an address, `chat_payload` writes a call, `read_chat` asks and feeds an answer.
"""

from amplifier_kit.llm.chat.client import NO_KEY, chat_client, server_url
from amplifier_kit.llm.chat.config import ChatConfig
from amplifier_kit.llm.chat.messages import ORIGIN, messages_of
from amplifier_kit.llm.chat.models import describe, is_for_chat, listed_models
from amplifier_kit.llm.chat.payload import chat_payload
from amplifier_kit.llm.chat.provider import CHAT, ChatProvider
from amplifier_kit.llm.chat.refusals import WarmingUpError, is_about_format, sharpened
from amplifier_kit.llm.chat.stream import ChatReading, ServedError, read_chat
from amplifier_kit.llm.chat.tags import ThinkTags

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
