"""Chat completions, the protocol of OpenAI that most servers speak: `ChatProvider` only needs a name."""

from amplifier_kit.llm.chat.provider import CHAT, ChatProvider, describe_model, is_chat_model
from amplifier_kit.llm.chat.request import ORIGIN, ChatConfig, chat_payload, messages_of
from amplifier_kit.llm.chat.response import ChatReader, ThinkTags, read_chat

__all__ = [
    "CHAT",
    "ORIGIN",
    "ChatConfig",
    "ChatProvider",
    "ChatReader",
    "ThinkTags",
    "chat_payload",
    "describe_model",
    "is_chat_model",
    "messages_of",
    "read_chat",
]
