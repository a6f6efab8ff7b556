"""The kernel's data: what hooks, tools, providers and modules hand to each other.

Unknown keys are ignored. Building the validators is put off until a model is first used, so importing this module
costs little more than pydantic itself.
"""

import copy
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from amplifier_core._money import CostUSD
from amplifier_core._tool_result_content import ToolResultContent, present_content
from amplifier_core.utils._tree import copy_tree

__all__ = [
    "ConfigField",
    "ContextInjection",
    "HookResult",
    "ModelInfo",
    "ModuleInfo",
    "Pricing",
    "ProviderInfo",
    "SessionStatus",
    "ToolResult",
]

_DEFERRED: Final = ConfigDict(defer_build=True)

# Control characters but tab, newline and carriage return, and every surrogate.
_UNFIT_FOR_LLM: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def _empty() -> list[Any]:
    """Return a new list. Of `list` itself, pydantic would parse the signature, at the start of every program."""
    return []


def _sanitize_for_llm(text: str) -> str:
    """Drop the characters that no model request can carry."""
    return _UNFIT_FOR_LLM.sub("", text)


class ContextInjection(BaseModel):
    """Carry one text that a hook adds to the conversation, and where it came from."""

    model_config = _DEFERRED

    content: str
    role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    append_to_last_tool_result: bool = False
    hook_name: str = "unknown"
    event: str = ""


class HookResult(BaseModel):
    """Carry a hook's verdict on an event.

    An `ephemeral` injection goes into the next provider request only and is never stored in the context;
    `append_to_last_tool_result` means something only with it.
    """

    model_config = _DEFERRED

    action: Literal["continue", "deny", "modify", "inject_context", "ask_user"] = "continue"
    data: dict[str, Any] | None = None
    reason: str | None = None
    context_injection: str | None = None
    context_injection_role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    approval_prompt: str | None = None
    approval_options: list[str] | None = None
    approval_timeout: float = 300.0
    approval_default: Literal["allow", "deny"] = "deny"
    suppress_output: bool = False
    user_message: str | None = None
    user_message_level: Literal["info", "warning", "error"] = "info"
    user_message_source: str | None = None
    append_to_last_tool_result: bool = False
    context_injections: list[ContextInjection] = Field(default_factory=_empty)


def _is_empty(value: object) -> bool:
    return not value


class ToolResult(BaseModel):
    """Carry what a tool answered.

    `output` is for programs, `content` holds text and images meant for the model. A failure without output takes its
    error's message as output. Assignments are validated; no error message quotes the input; dumps have the key
    `content` only when there is some.
    """

    model_config = ConfigDict(defer_build=True, validate_assignment=True, hide_input_in_errors=True)

    success: bool = True
    output: Any = None
    error: dict[str, Any] | None = None
    content: ToolResultContent = Field(default=None, exclude_if=_is_empty)

    def model_post_init(self, context: Any, /) -> None:
        """Let a failure speak through its output."""
        if not self.success and self.output is None and self.error and self.error.get("message"):
            self.output = self.error["message"]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a validated copy with the fields of `update` replaced; raise ValidationError when they do not fit.

        The copy shares no container with this result; with `deep` it shares no object either.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields} | (self.model_extra or {})
        fields = copy.deepcopy(fields) if deep else copy_tree(fields, _unedited)
        return type(self).model_validate(fields | dict(update or {}), by_name=True)

    def __str__(self) -> str:
        if self.success:
            return str(self.output) if self.output else "Success"
        return f"Error: {self.error.get('message', 'Unknown error')}" if self.error else "Failed"

    def get_serialized_output(self) -> str:
        """Return the result as text for a model: structured output as JSON, the rest as a string.

        Raise TypeError for structured output that JSON cannot express.
        """
        if isinstance(self.output, dict | list):
            import json

            return _sanitize_for_llm(json.dumps(self.output, default=_decimal_as_text))
        if self.output is not None:
            return _sanitize_for_llm(str(self.output))
        if self.success:
            return "Success"
        message = self.error.get("message", "Unknown error") if self.error else "Failed"
        return _sanitize_for_llm(f"Error: {message}")

    def safe_hook_presentation(self) -> dict[str, Any]:
        """Return what hooks may see: the result with a note in place of each image, sharing no container with it.

        Output and error are shown as they are.
        """
        shown = {"success": self.success, "output": self.output, "error": self.error}
        presentation: dict[str, Any] = copy_tree(shown, _unedited)
        if self.content:
            presentation["content"] = present_content(self.content)
        return presentation


def _unedited(copied: object) -> None:
    """Leave a copied container as it is."""


def _decimal_as_text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _check_currency(code: str) -> str:
    if not re.fullmatch("[A-Z]{3}", code):
        raise ValueError(f"currency must be a 3-letter ISO 4217 code, got {code!r}")
    return code


class Pricing(BaseModel):
    """State what a model costs per million tokens."""

    model_config = _DEFERRED

    input_per_million: float
    output_per_million: float
    cache_read_per_million: float | None = None
    cache_write_per_million: float | None = None
    currency: Annotated[str, AfterValidator(_check_currency)] = "USD"


class ModelInfo(BaseModel):
    """Describe one model of a provider."""

    model_config = _DEFERRED

    id: str
    display_name: str
    context_window: int
    max_output_tokens: int
    capabilities: list[str] = Field(default_factory=_empty)
    defaults: dict[str, Any] = Field(default_factory=dict)
    pricing: Pricing | None = None


class ConfigField(BaseModel):
    """Describe one question an app asks to set a provider up."""

    model_config = _DEFERRED

    id: str
    display_name: str
    field_type: Literal["text", "secret", "choice", "boolean"] = "text"
    prompt: str
    env_var: str | None = None
    choices: list[str] | None = None
    required: bool = True
    default: str | None = None
    show_when: dict[str, str] | None = None
    requires_model: bool = False


class ProviderInfo(BaseModel):
    """Describe a provider and how to set it up."""

    model_config = _DEFERRED

    id: str
    display_name: str
    credential_env_vars: list[str] = Field(default_factory=_empty)
    capabilities: list[str] = Field(default_factory=_empty)
    defaults: dict[str, Any] = Field(default_factory=dict)
    config_fields: list[ConfigField] = Field(default_factory=_empty)


class ModuleInfo(BaseModel):
    """Describe a module the loader can find."""

    model_config = _DEFERRED

    id: str
    name: str
    version: str
    type: Literal["orchestrator", "provider", "tool", "context", "hook", "resolver"]
    mount_point: str
    description: str
    config_schema: dict[str, Any] | None = None


class SessionStatus(BaseModel):
    """Count what a session did and say how it stands. `cost_usd` None means unknown, which is not zero."""

    model_config = _DEFERRED

    session_id: str
    started_at: datetime = Field(default_factory=lambda: datetime.now())
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed", "cancelled"] = "running"
    total_messages: int = 0
    tool_invocations: int = 0
    tool_successes: int = 0
    tool_failures: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    cost_usd: CostUSD | None = None
    last_activity: datetime | None = None
    last_error: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON-able data without what is unknown."""
        return self.model_dump(mode="json", exclude_none=True)
