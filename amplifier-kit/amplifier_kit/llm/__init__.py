"""The base of providers of model services: with it, a provider is a small module.

Start with `provider.py`: `LLMProvider.complete` reads a request (`request.py`), makes attempts (`retry.py`, within
`limits.py`), collects the answer (`response.py`) and turns failures into errors (`errors.py`, where a new kind of error
goes). `chat` and `responses` are the two protocols that several services share. `amplifier_testing.llm` has servers
that speak the services' protocols, and the conformance tests of providers.
"""

from amplifier_kit.llm.client import (
    capture_responses,
    http_client,
    http_options,
    import_in_thread,
    proxy_errors,
    record_response,
)
from amplifier_kit.llm.config import ProviderConfig, env_or_config
from amplifier_kit.llm.errors import (
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    OPENAI,
    Endpoint,
    ServiceError,
    WarmingUpError,
    Wire,
    to_llm_error,
)
from amplifier_kit.llm.prices import Tokens
from amplifier_kit.llm.provider import (
    LLMProvider,
    key_field,
    model_field,
    mount_keyed_provider,
    mount_provider,
    url_field,
)
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
    function_parameters,
    function_tool,
    instruction_text,
    native_spec,
    read_conversation,
    read_tool_choice,
    safe_id,
)
from amplifier_kit.llm.response import Answer, FinishReason, LLMResponse
from amplifier_kit.llm.structured_output import ANSWER_TOOL, Mode, Shape, closed_schema

__all__ = [
    "ANSWER_TOOL",
    "ANTHROPIC",
    "GEMINI",
    "OLLAMA",
    "OPENAI",
    "Answer",
    "Call",
    "Conversation",
    "Endpoint",
    "FinishReason",
    "Image",
    "LLMCall",
    "LLMProvider",
    "LLMResponse",
    "Mode",
    "Part",
    "ProviderConfig",
    "Redacted",
    "Result",
    "ServiceError",
    "Shape",
    "Text",
    "Thinking",
    "Tokens",
    "Turn",
    "WarmingUpError",
    "Wire",
    "capture_responses",
    "closed_schema",
    "env_or_config",
    "function_parameters",
    "function_tool",
    "http_client",
    "http_options",
    "import_in_thread",
    "instruction_text",
    "key_field",
    "model_field",
    "mount_keyed_provider",
    "mount_provider",
    "native_spec",
    "proxy_errors",
    "read_conversation",
    "read_tool_choice",
    "record_response",
    "safe_id",
    "to_llm_error",
    "url_field",
]
