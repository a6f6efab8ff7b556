"""The models of results, providers, modules and sessions."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from amplifier_core import (
    ApprovalRequest,
    ApprovalResponse,
    ConfigField,
    ContextInjection,
    HookResult,
    ModelInfo,
    ModuleInfo,
    Pricing,
    ProviderInfo,
    SessionStatus,
    Usage,
)

from .base import Stage, outcome, scenario


async def refusals(kind: Any, *tries: dict[str, Any]) -> list[str]:
    """Return what the model says to each try."""
    return [str(await outcome(lambda fields=fields: kind(**fields) and "accepted")) for fields in tries]


@scenario
async def hook_result_defaults(stage: Stage) -> Any:
    """Every field of an empty result, in order."""
    return [list(HookResult().model_dump().items()), HookResult(unknown=1).model_dump() == HookResult().model_dump()]


@scenario
async def hook_result_refusals(stage: Stage) -> Any:
    """Values the fields do not take."""
    tries: list[dict[str, Any]] = [
        {"action": "explode"},
        {"context_injection_role": "robot"},
        {"approval_default": "maybe"},
        {"user_message_level": "loud"},
        {"data": [1]},
        {"approval_timeout": "soon"},
        {"approval_options": "Allow"},
        {"context_injections": [{"role": "user"}]},
    ]
    return await refusals(HookResult, *tries)


@scenario
async def hook_result_json(stage: Stage) -> Any:
    """Through JSON and back."""
    result = HookResult(action="inject_context", context_injections=[ContextInjection(content="c")])
    return [
        result.model_dump_json(),
        HookResult.model_validate_json(result.model_dump_json()) == result,
        repr(ContextInjection(content="c")),
    ]


@scenario
async def metadata_defaults(stage: Stage) -> Any:
    """The models that describe providers and modules."""
    return [
        ModelInfo(id="m", display_name="M", context_window=1, max_output_tokens=2),
        ConfigField(id="f", display_name="F", prompt="p"),
        ProviderInfo(id="p", display_name="P"),
        ModuleInfo(id="i", name="n", version="1", type="tool", mount_point="tools", description="d"),
        Pricing(input_per_million=1, output_per_million="2.5"),
        ApprovalRequest(tool_name="t", action="a", risk_level="high"),
        ApprovalResponse(approved=True),
    ]


@scenario
async def metadata_refusals(stage: Stage) -> Any:
    """What they refuse."""
    price: dict[str, Any] = {"input_per_million": 1, "output_per_million": 2}
    request = {"tool_name": "t", "action": "a", "risk_level": "low"}
    info = {"id": "i", "name": "n", "version": "1", "mount_point": "tools", "description": "d"}
    return [
        await refusals(
            Pricing, {**price, "currency": "usd"}, {**price, "currency": "EURO"}, {**price, "currency": "EUR"}, {}
        ),
        await refusals(
            ApprovalRequest, {**request, "timeout": 0}, {**request, "timeout": -1.5}, {**request, "timeout": 2}
        ),
        await refusals(ModuleInfo, {**info, "type": "gadget"}, {**info, "type": "resolver"}),
        await refusals(ConfigField, {"id": "f", "display_name": "F", "prompt": "p", "field_type": "slider"}),
        await refusals(ModelInfo, {"id": "m"}),
        await refusals(ProviderInfo, {}),
    ]


@scenario
async def session_status(stage: Stage) -> Any:
    """A session's status, and its short form."""
    status = SessionStatus(session_id="s", started_at=datetime(2024, 1, 1), cost_usd="0.10")
    fields = status.model_dump()
    return [fields, status.to_dict(), await refusals(SessionStatus, {}, {"session_id": "s", "status": "odd"})]


@scenario
async def money(stage: Stage) -> Any:
    """Costs are exact, shown as text, never floats."""
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    tries: list[Any] = [None, "0.1", 1, Decimal("2.50"), Decimal("0"), 0.5, True, "much"]
    said: list[Any] = []
    for value in tries:
        made = await outcome(lambda value=value: Usage(**usage, cost_usd=value))
        if isinstance(made, str):
            said.append(made)
        else:
            said.append([repr(made.cost_usd), made.model_dump()["cost_usd"], made.model_dump_json()])
    return said


@scenario
async def money_in_the_schema(stage: Stage) -> Any:
    """The schema of a cost admits text."""
    schema = Usage.model_json_schema(mode="serialization")["properties"]["cost_usd"]
    return "string" in str(schema)


@scenario
async def content_dataclasses(stage: Stage) -> Any:
    """The streaming content blocks."""
    from amplifier_core import (
        ContentBlock,
        ContentBlockType,
        TextContent,
        ThinkingContent,
        ToolCallContent,
        ToolResultContent,
    )

    error: Any = {"message": "e"}  # a dict, where the annotation says text
    blocks: list[Any] = [
        TextContent(text="t", raw={"r": 1}),
        ThinkingContent(text="t"),
        ToolCallContent(id="i", name="n", arguments={"a": 1}),
        ToolResultContent(tool_call_id="i", output={"o": 1}),
        ToolResultContent(tool_call_id="i", error=error),
        ContentBlock(type=ContentBlockType.TEXT),
    ]
    empty = [kind() for kind in (TextContent, ThinkingContent, ToolCallContent, ToolResultContent)]
    return [[block.to_dict() for block in blocks], empty, [kind.value for kind in ContentBlockType]]
