"""Chat completions, the protocol of OpenAI that most servers speak: `ChatProvider` only needs a name."""

from amplifier_kit.llm.chat.provider import CHAT, ChatProvider, describe_model, is_chat_model
from amplifier_kit.llm.chat.request import ChatConfig, chat_payload, messages_of
from amplifier_kit.llm.chat.response import ThinkTags

__all__ = [
    "CHAT",
    "ChatConfig",
    "ChatProvider",
    "ThinkTags",
    "chat_payload",
    "describe_model",
    "is_chat_model",
    "messages_of",
]
