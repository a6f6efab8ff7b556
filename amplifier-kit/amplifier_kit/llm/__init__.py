"""What the providers of model services share: a service is a small module on top of this.

`LLMProvider` is the frame; see `amplifier_testing.llm` for servers that speak the services' protocols, and for the
conformance tests that every provider inherits.
"""

from amplifier_kit.engine.budget import BudgetExhaustedError, require_allowance
from amplifier_kit.llm.client import http_client, http_options, imported, proxy_faults
from amplifier_kit.llm.config import ProviderConfig, env_or_config
from amplifier_kit.llm.errors import ANTHROPIC, GEMINI, OLLAMA, OPENAI, Endpoint, Wire, to_llm_error
from amplifier_kit.llm.provider import PROVIDER_EVENTS, LLMProvider, mount_provider
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
    Part,
    Redacted,
    Result,
    Text,
    Thinking,
    Turn,
    as_reminder,
    native_spec,
    read_conversation,
    safe_id,
)
from amplifier_kit.llm.response import Answer, FinishReason, LLMResponse
from amplifier_kit.llm.streaming import Exchange, alive, hear_response, overhear, within
from amplifier_kit.llm.structured_output import ANSWER_TOOL, Mode, OutputMismatchError, Shape, closed_schema
from amplifier_kit.llm.usage import CostLedger, Tokens, price_of

__all__ = [
    "ANSWER_TOOL",
    "ANTHROPIC",
    "GEMINI",
    "OLLAMA",
    "OPENAI",
    "PROVIDER_EVENTS",
    "Answer",
    "BudgetExhaustedError",
    "Call",
    "Conversation",
    "CostLedger",
    "Endpoint",
    "Exchange",
    "FinishReason",
    "Image",
    "LLMCall",
    "LLMProvider",
    "LLMResponse",
    "Mode",
    "OutputMismatchError",
    "Part",
    "ProviderConfig",
    "Redacted",
    "Result",
    "Shape",
    "Text",
    "Thinking",
    "Tokens",
    "Turn",
    "Wire",
    "alive",
    "as_reminder",
    "closed_schema",
    "env_or_config",
    "hear_response",
    "http_client",
    "http_options",
    "imported",
    "mount_provider",
    "native_spec",
    "overhear",
    "price_of",
    "proxy_faults",
    "read_conversation",
    "require_allowance",
    "safe_id",
    "to_llm_error",
    "within",
]
