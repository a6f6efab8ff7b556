"""The kernel's data: what hooks, tools, providers and modules hand to each other.

Unknown keys are ignored. Building the validators is put off until a model is first used, so importing this module
costs little more than pydantic itself.
"""

import base64
import binascii
import copy
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import core_schema

from amplifier_core.data import copy_tree

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from amplifier_core.approval_models import ApprovalRequest as ApprovalRequest
    from amplifier_core.approval_models import ApprovalResponse as ApprovalResponse
    from amplifier_core.message_models import ImageBlock, TextBlock

__all__ = [
    "ApprovalRequest",
    "ApprovalResponse",
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
_UNFIT_FOR_LLM: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"


def _empty() -> list[Any]:
    """Return a new list. Of `list` itself, pydantic would parse the signature, at the start of every program."""
    return []


def _sanitize_for_llm(text: str) -> str:
    """Drop the characters that no model request can carry."""
    return re.sub(_UNFIT_FOR_LLM, "", text)


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


# -- the content of a tool result: text and images for the model, checked to the last byte --
#
# The blocks are envelope models, whose import is paid for only by a result that has content.

#: What hooks see in place of an image.
OMITTED_IMAGE: Final = "[Image omitted from tool event; original retained for model request if unmodified.]"

# The names that RFC 6838 allows, without parameters.
_MEDIA_TYPE: Final = r"image/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
_SURROGATE: Final = "[\ud800-\udfff]"


def validate_content(value: Any) -> "list[TextBlock | ImageBlock] | None":
    """Return fresh blocks that share nothing with `value`; None for an empty list.

    Raise ValueError with a fixed text that never quotes the input, which may be large or private.
    """
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise ValueError("invalid tool result content")
    return [_validate_block(item) for item in value] or None


def _validate_block(item: Any) -> "TextBlock | ImageBlock":
    from amplifier_core.message_models import ImageBlock, TextBlock

    fields = item.__dict__ if isinstance(item, BaseModel) else item
    kind = fields.get("type") if isinstance(fields, dict) else None
    if kind == "text":
        text = fields.get("text")
        # A lone surrogate is not text: it could be neither sent nor stored.
        if not isinstance(text, str) or re.search(_SURROGATE, text):
            raise ValueError("invalid tool result content")
        return TextBlock(text=text)
    if kind == "image":
        return ImageBlock(source=_validate_source(fields.get("source")))
    raise ValueError("invalid tool result content")


def _validate_source(source: Any) -> dict[str, Any]:
    if not isinstance(source, dict) or source.get("type") != "base64":
        raise ValueError("invalid tool result image source")
    media_type = source.get("media_type")
    if not isinstance(media_type, str) or not re.fullmatch(_MEDIA_TYPE, media_type):
        raise ValueError("invalid tool result image media type")
    data = source.get("data")
    if not isinstance(data, str) or not _is_canonical_base64(data):
        raise ValueError("invalid tool result image data")
    return {"type": "base64", "media_type": str(media_type), "data": str(data)}


def _is_canonical_base64(data: str) -> bool:
    if not data or not data.isascii():
        return False
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    # Bits after the last byte must be zero, so that one image has one spelling.
    return base64.b64encode(decoded).decode("ascii") == data


def dump_content(content: "list[TextBlock | ImageBlock] | None") -> list[Any] | None:
    """Return the blocks as plain data with their type and payload alone."""
    if content is None:
        return None
    return [_dump_block(block) for block in content]


def _dump_block(block: Any) -> Any:
    payload = {"text": "text", "image": "source"}.get(getattr(block, "type", None) or "")
    # A result built without validation may hold anything; it is dumped as it is.
    return block.model_dump(include={"type", payload}) if payload else block


def present_content(content: "list[TextBlock | ImageBlock]") -> list[dict[str, Any]]:
    """Return the blocks as hooks may see them: text whole, images as a note."""
    return [
        {"type": "text", "text": block.text if block.type == "text" else OMITTED_IMAGE}  # one shape for both kinds
        for block in content
    ]


class _ContentSchema:
    """Teach pydantic the rules above without naming a block class before one is needed."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: "GetCoreSchemaHandler") -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            validate_content,
            serialization=core_schema.plain_serializer_function_ser_schema(dump_content),
        )

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: core_schema.CoreSchema, handler: "GetJsonSchemaHandler"
    ) -> "JsonSchemaValue":
        from pydantic import TypeAdapter

        from amplifier_core.message_models import ImageBlock, TextBlock

        return handler(TypeAdapter(list[TextBlock | ImageBlock] | None).core_schema)


if TYPE_CHECKING:
    ToolResultContent = list[TextBlock | ImageBlock] | None
else:
    ToolResultContent = Annotated[Any, _ContentSchema]


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
        fields = copy.deepcopy(fields) if deep else copy_tree(fields)
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
        presentation: dict[str, Any] = copy_tree(shown)
        if self.content:
            presentation["content"] = present_content(self.content)
        return presentation


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


def _refuse_float(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(
            "cost_usd must be Decimal, not float: a float cannot hold most amounts exactly; "
            "pass Decimal('0.01') or the string '0.01'"
        )
    return value


class _AsText:
    """Let pydantic dump an amount as text; `PlainSerializer` does that too, after a slow import."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: "GetCoreSchemaHandler") -> core_schema.CoreSchema:
        text = core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema())
        return core_schema.no_info_before_validator_function(_refuse_float, handler(source), serialization=text)


#: Dollars. None means unknown, which is not zero. Strings and ints are taken, floats refused; dumps are strings.
CostUSD = Annotated[Decimal, _AsText]


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
        """Return the known fields of the status as JSON data."""
        return self.model_dump(mode="json", exclude_none=True)


def __getattr__(name: str) -> Any:
    if name in ("ApprovalRequest", "ApprovalResponse"):
        from amplifier_core import approval_models

        return getattr(approval_models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
