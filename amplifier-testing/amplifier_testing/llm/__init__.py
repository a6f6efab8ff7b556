"""For tests of providers and of code that uses them: servers on loopback that speak the services' protocols.

`ModelServer` is the server, `Reply` one scripted answer with its faults, `AnthropicWire` and its like put what a model
says into a service's words. `ProviderConformance` and `FaultConformance` are the tests that every provider inherits;
they need pytest, and are imported from their own modules.
"""

from amplifier_testing.llm.anthropic import AnthropicWire
from amplifier_testing.llm.chat import ChatWire
from amplifier_testing.llm.gemini import GeminiWire
from amplifier_testing.llm.ollama import OllamaWire
from amplifier_testing.llm.reply import Fault, Reply, sse
from amplifier_testing.llm.responses import ResponsesWire
from amplifier_testing.llm.script import Said, WireServer
from amplifier_testing.llm.server import Heard, ModelServer

__all__ = [
    "AnthropicWire",
    "ChatWire",
    "Fault",
    "GeminiWire",
    "Heard",
    "ModelServer",
    "OllamaWire",
    "Reply",
    "ResponsesWire",
    "Said",
    "WireServer",
    "sse",
]
