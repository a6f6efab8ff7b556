"""What each kind of module offers: structural types, satisfied by shape and never by inheritance.

Importing a protocol loads no model; the models named here are imported when asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from amplifier_core.approval_models import ApprovalRequest, ApprovalResponse
    from amplifier_core.hooks import HookRegistry
    from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
    from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult

__all__ = [
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ContextManager",
    "HookHandler",
    "Orchestrator",
    "Provider",
    "Tool",
]

# The models of the signatures below can be imported from here too, as existing modules do.
_HOMES = {
    "ApprovalRequest": "approval_models",
    "ApprovalResponse": "approval_models",
    "ChatRequest": "message_models",
    "ChatResponse": "message_models",
    "HookResult": "models",
    "ModelInfo": "models",
    "ProviderInfo": "models",
    "ToolCall": "message_models",
    "ToolResult": "models",
}


def __getattr__(name: str) -> Any:
    """Import the model `name` from its own module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"amplifier_core.{home}"), name)
    globals()[name] = value
    return value


class Orchestrator(Protocol):
    """Run the loop of a turn: ask the model, run the tools, until there is an answer."""

    async def execute(
        self,
        prompt: str,
        context: ContextManager,
        providers: dict[str, Provider],
        tools: dict[str, Tool],
        hooks: HookRegistry,
        **kwargs: Any,
    ) -> str:
        """Return the answer to `prompt`; whatever it raises reaches the caller of the session as itself."""
        ...


class Provider(Protocol):
    """Speak to one service that runs models."""

    @property
    def name(self) -> str:
        """Return the name under which the provider is mounted."""
        ...

    def get_info(self) -> ProviderInfo:
        """Return the provider's description and the config it needs."""
        ...

    async def list_models(self) -> list[ModelInfo]:
        """Return the models on offer."""
        ...

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer; raise an `LLMError` when there is none."""
        ...

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of `response`, in order."""
        ...


class Tool(Protocol):
    """Do one thing for the model."""

    @property
    def name(self) -> str:
        """Return the name by which the model calls the tool."""
        ...

    @property
    def description(self) -> str:
        """Return what the tool does, in the words the model reads."""
        ...

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the input; none by default."""
        return {}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the result; bad input is a result with `success=False`, not an exception."""
        ...


class ContextManager(Protocol):
    """Keep the conversation and build from it what a request carries."""

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message."""
        ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the view for the next request, shrunk to `token_budget`; the kept history is not changed."""
        ...

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return the whole history."""
        ...

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace the whole history, as on resume."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...


class HookHandler(Protocol):
    """Look at an event and give a verdict."""

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Return the verdict on `event`; `data` is the handler's own copy."""
        ...


class ApprovalProvider(Protocol):
    """Answer requests for permission."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return whether `request` is granted."""
        ...
