"""The base of providers of model services: with it, a provider is a small module.

Start with `provider.py`: `LLMProvider.complete` reads a request (`request.py`), makes attempts (`retry.py`, within
`rate_limit.py` and `circuit_breaker.py`), collects the answer (`response.py`) and turns failures into errors
(`errors.py`, where a new kind of error goes). `chat` and `responses` are the two protocols that several services share.
`amplifier_testing.llm` has servers that speak the services' protocols, and the conformance tests of providers.
"""

from amplifier_kit.engine.budget import BudgetExhaustedError, require_allowance
from amplifier_kit.llm.client import http_client, http_options, import_in_thread, proxy_errors
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
from amplifier_kit.llm.streaming import (
    CapturedResponses,
    capture_responses,
    record_response,
    time_limit,
    with_idle_timeout,
)
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
    "CapturedResponses",
    "Conversation",
    "CostLedger",
    "Endpoint",
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
    "as_reminder",
    "capture_responses",
    "closed_schema",
    "env_or_config",
    "http_client",
    "http_options",
    "import_in_thread",
    "mount_provider",
    "native_spec",
    "price_of",
    "proxy_errors",
    "read_conversation",
    "record_response",
    "require_allowance",
    "safe_id",
    "time_limit",
    "to_llm_error",
    "with_idle_timeout",
]
