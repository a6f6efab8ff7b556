"""The config keys of the Responses API, and the arguments of `responses.create` for a call.

The form of a turn depends on the turn alone, so that a request begins like the request before it, which services cache.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.config import expects
from amplifier_kit.llm.config import (
    Name,
    Number,
    PositiveNumber,
    PositiveWhole,
    ProviderConfig,
    Switch,
    Temperature,
    to_switch,
)
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
    Result,
    Text,
    Thinking,
    Turn,
    function_parameters,
    native_spec,
    read_tool_choice,
    safe_id,
)
from amplifier_kit.llm.responses.models import EFFORTS, Abilities
from amplifier_kit.llm.structured_output import Shape, closed_schema
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

# -- config --


def _as_reasoning(value: Any) -> Any:
    return value if isinstance(value, Mapping) else {"effort": value}


def _check_effort(reasoning: dict[str, Any]) -> dict[str, Any]:
    if reasoning.get("effort") not in (None, *EFFORTS):
        raise ValueError(f"unknown effort {reasoning['effort']!r}")
    return reasoning


_Reasoning = Annotated[
    dict[str, Any],
    BeforeValidator(_as_reasoning),
    AfterValidator(_check_effort),
    expects(f"one of {', '.join(EFFORTS)}, or a mapping with such an `effort`"),
]
Chaining = Annotated[
    Literal["auto"] | bool,
    BeforeValidator(lambda value: value if value == "auto" else to_switch(value)),
    expects("auto, true or false"),
]
Retention = Literal["in_memory", "24h"]


class ResponsesConfig(ProviderConfig):
    max_tokens: PositiveWhole = Field(
        4096, description="Tokens of the longest response; an answer may take several responses."
    )
    temperature: Temperature = Field(None, description="Sampling temperature, for models that do not think.")
    reasoning: _Reasoning = Field(
        default_factory=dict,
        description="How much to think, or the service's own `{effort, summary, ...}`; a request's effort wins.",
    )
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = Field(
        "detailed", description="How thinking is summarized; null for no summary."
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        None, description="auto drops the oldest messages when the window is full, disabled is an error then."
    )
    enable_state: Switch = Field(False, description="Let the service store responses.")
    enable_response_chaining: Chaining = Field(
        "auto", description="Continue from stored responses instead of sending the history; auto for thinking models."
    )
    prompt_cache_key: Name | None = Field(None, description="Name by which the service finds the prompt cache.")
    prompt_cache_retention: Retention | None = Field(
        None, description="How long prompt caches are kept; null for the service's default."
    )
    safety_identifier: Name | None = Field(
        None, description="Stable name of your user, for the service's abuse detection."
    )
    poll_interval: Number = Field(5.0, description="Seconds between polls of a response that runs in the background.")
    background_timeout: PositiveNumber = Field(1800.0, description="Seconds after which such a response is cancelled.")
    enable_long_context: Switch = Field(
        False, description="Use the larger context window of models that have one; its tokens cost more."
    )


# -- items --


PATCH_TOOL: Final = "apply_patch"
PATCH_CALL: Final = "apply_patch_call"

_APPLIED: Final = re.compile(r"^[AMD] \S")

Item = dict[str, Any]


def item_key(origin: str) -> str:
    """Return the key under which a block keeps the id and facts of its item."""
    return f"{origin}:item"


def output_key(origin: str) -> str:
    """Return the key under which a message keeps its original items, when tools ran at the service."""
    return f"{origin}:output"


def items_of(conversation: Conversation, origin: str, unreadable: Collection[str] = ()) -> list[list[Item]]:
    """Return the items of each turn, without reasoning whose id is in `unreadable`."""
    calls = [part for turn in conversation.turns for part in turn.parts if isinstance(part, Call)]
    patches = {call.id for call in calls if _facts(call, origin).get("type") == PATCH_CALL}
    items: list[list[Item]] = []
    for turn in conversation.turns:
        if turn.role == "assistant":
            items.append(_assistant(turn, origin, unreadable))
        elif turn.role == "tool":
            items.append([_result(part, part.call_id in patches) for part in turn.parts if isinstance(part, Result)])
        else:
            content = [_shown(part) for part in turn.parts if isinstance(part, Text | Image)]
            # Later instructions stay where they are, under the service's role for them.
            role = "user" if turn.role == "user" else "developer"
            items.append([{"type": "message", "role": role, "content": content}] if content else [])
    return items


def reasoning_ids(items: Iterable[Item]) -> set[str]:
    return {str(item.get("id")) for item in items if item.get("type") == "reasoning"}


def _facts(part: Text | Call, origin: str) -> Item:
    """Return the id and facts of the item that a part came in; empty for a part of another service."""
    facts = part.extra.get(item_key(origin))
    return facts if isinstance(facts, dict) else {}


def _assistant(turn: Turn, origin: str, unreadable: Collection[str]) -> list[Item]:
    raw = turn.metadata.get(output_key(origin))
    if isinstance(raw, list) and raw and _match(raw, turn):
        items = [dict(item) for item in raw]
    else:
        items = []
        for part in turn.of_origin(origin).parts:
            match part:
                case Text():
                    _add_text(items, part, _facts(part, origin))
                case Thinking(content=[{"type": "reasoning"} as item]):
                    items.append(dict(item))
                case Call():
                    items.append(_call(part, _facts(part, origin)))
    kept = [item for item in items if item["type"] != "reasoning" or item.get("id") not in unreadable]
    return without_last_reasoning(kept)


def without_last_reasoning(items: list[Item]) -> list[Item]:
    """Return items that do not end with reasoning: the service refuses it without the item that followed it."""
    while items and items[-1]["type"] == "reasoning":
        items = items[:-1]
    return items


def _add_text(items: list[Item], part: Text, facts: Item) -> None:
    content: Item = {"type": "output_text", "text": part.text}
    if facts:
        content["annotations"] = []
        if items and items[-1].get("id") == facts.get("id"):
            items[-1]["content"].append(content)
            return
    items.append({"type": "message", "role": "assistant", "content": [content], **facts})


def _call(part: Call, facts: Item) -> Item:
    if facts.get("type") == PATCH_CALL:
        return {"call_id": safe_id(part.id), "operation": part.arguments, "status": "completed", **facts}
    # Without spaces, as models write it: so the request is the same as the cached one.
    arguments = json.dumps(part.arguments, ensure_ascii=False, separators=(",", ":"))
    return {"type": "function_call", "call_id": safe_id(part.id), "name": part.name, "arguments": arguments, **facts}


def _result(part: Result, is_patch: bool) -> Item:
    call_id = safe_id(part.call_id)
    if is_patch:
        # A tool message has no status; an applied patch lists its files.
        status = "completed" if _APPLIED.match(part.text) else "failed"
        return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": part.text}
    output: Any = [_shown(inner) for inner in part.parts] if part.images else part.text
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _shown(part: Text | Image) -> Item:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}


def _match(raw: list[Any], turn: Turn) -> bool:
    """Return whether original items still match the turn; the blocks of an edited turn are used instead."""
    if not all(isinstance(item, dict) and "type" in item for item in raw):
        return False
    calls = [item.get("call_id") for item in raw if item["type"] in ("function_call", PATCH_CALL)]
    contents = [content for item in raw if item["type"] == "message" for content in item.get("content") or ()]
    text = "".join(content.get("text", "") for content in contents if content.get("type") == "output_text")
    said = "".join(part.text for part in turn.parts if isinstance(part, Text))
    return calls == [part.id for part in turn.parts if isinstance(part, Call)] and text == said


# -- continuing from a stored response --


def chain_key(prefix: str) -> str:
    """Return the key under which a message keeps its digest."""
    return f"{prefix}:chain"


def digest_history(place: str, before: Iterable[Item], text: str, calls: Iterable[tuple[str, str, Any]]) -> str:
    """Return the digest of a history: its address, the items before an answer, and the answer's text and calls."""
    whole = json.dumps([place, list(before), [text, list(calls)]], sort_keys=True, ensure_ascii=False, default=str)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Link(NamedTuple):
    """The stored response to continue from, and the number of turns that it covers."""

    response_id: str
    turns: int


def find_link(
    conversation: Conversation, items: Sequence[list[Item]], place: str, prefix: str, lost: set[str]
) -> Link | None:
    """Return the response to continue from, None when the whole history has to be sent; `items` are those of the turns.

    A message keeps the id of its response and a digest of everything up to its end. The id replaces the history only
    while the history still has that digest: text that a hook added for one request, a compaction, another model or
    another address change the digest, and then everything is sent.
    """
    turns = conversation.turns
    at = next((index for index in reversed(range(len(turns))) if turns[index].role == "assistant"), None)
    if at is None or not any(items[at + 1 :]):
        return None
    response_id, mark = (turns[at].metadata.get(key) for key in (f"{prefix}:response_id", chain_key(prefix)))
    if not isinstance(response_id, str) or not isinstance(mark, str) or response_id in lost:
        return None
    before = [item for turn in items[:at] for item in turn]
    text = "".join(part.text for part in turns[at].parts if isinstance(part, Text))
    calls = [(part.id, part.name, part.arguments) for part in turns[at].parts if isinstance(part, Call)]
    return Link(response_id, at + 1) if digest_history(place, before, text, calls) == mark else None


# -- the arguments --


#: Tools that run at the service and are sources for research models.
_SOURCES: Final = ("web_search", "file_search", "mcp")
_warned: Final[set[str]] = set()


def build_payload(
    call: LLMCall,
    settings: ResponsesConfig,
    able: Abilities,
    items: list[Item],
    *,
    previous: str | None,
    stores: bool,
    patches_natively: bool,
) -> dict[str, Any]:
    """Return the arguments; `items` continue the response `previous`, if there is one.

    `stores` lets the service store the response; with `patches_natively`, `apply_patch` is the service's native tool.
    """
    request, conversation = call.request, call.conversation
    tools = _tools(request, able, patches_natively)
    reasoning = _reasoning(call, settings, able)
    retention, is_given = settings.prompt_cache_retention, settings.is_given("prompt_cache_retention")
    parallel = (request.metadata or {}).get("parallel_tool_calls")
    payload = {
        "model": call.model,
        "instructions": "\n\n".join(conversation.system) or None,
        "tools": tools or None,
        "input": items,
        "store": stores,
        "previous_response_id": previous,
        "max_output_tokens": min(request.max_output_tokens or settings.max_tokens, able.max_output),
        "reasoning": reasoning or None,
        "include": ["reasoning.encrypted_content"] if able.thinks else None,
        "text": {"format": _format(call.shape)} if call.shape and call.shape.mode == "native" else None,
        "tool_choice": _tool_choice(request, tools) if tools else None,
        "parallel_tool_calls": bool(parallel) if parallel is not None and tools else None,
        "background": able.runs_in_background or None,
        "truncation": settings.truncation,
        "prompt_cache_key": settings.prompt_cache_key,
        "prompt_cache_retention": retention if able.caches_long or is_given else None,
        "safety_identifier": settings.safety_identifier,
        "metadata": {"session_id": call.session_id} if call.session_id else None,
    }
    if not able.thinks or reasoning.get("effort") == "none":  # thinking models refuse both
        payload["temperature"] = request.temperature if request.temperature is not None else settings.temperature
        payload["top_p"] = request.top_p
    if request.stop and "stop" not in _warned:
        _warned.add("stop")
        logger.warning("the Responses API has no stop sequences: `stop` of the request is ignored")
    return {key: value for key, value in payload.items() if value is not None}


def _tools(request: ChatRequest, able: Abilities, patches_natively: bool) -> list[Item]:
    tools = [_tool(tool, patches_natively and able.patches) for tool in request.tools or ()]
    if not able.takes_functions:
        tools = [tool for tool in tools if tool["type"] != "function"]
        if not any(tool["type"].startswith(_SOURCES) for tool in tools):
            tools.append({"type": "web_search_preview"})
    return tools


def _tool(tool: ToolSpec, patches_natively: bool) -> Item:
    native = native_spec(tool)
    if native is not None:
        return {key: value for key, value in native.items() if key != "name"}
    if tool.name == PATCH_TOOL and patches_natively:
        return {"type": PATCH_TOOL}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": function_parameters(tool),
        # By default, the service is strict about schemas in a way that few schemas support.
        "strict": False,
    }


def _reasoning(call: LLMCall, settings: ResponsesConfig, able: Abilities) -> dict[str, Any]:
    """Return the reasoning options that the request, the loop or the config asks for."""
    wish = call.request.reasoning_effort or settings.reasoning.get("effort")
    if not able.thinks or not (wish or settings.reasoning or call.options.get("extended_thinking")):
        return {}
    reasoning = dict(settings.reasoning)
    if wish:
        reasoning["effort"] = able.effort(str(wish))
    if settings.reasoning_summary and reasoning.get("effort") != "none":
        reasoning.setdefault("summary", settings.reasoning_summary)
    return reasoning


def is_plain_object(schema: Any) -> bool:
    """Return whether a schema is that of an object, the only kind that the service accepts."""
    return isinstance(schema, dict) and schema.get("type") == "object" and "anyOf" not in schema


def _format(shape: Shape) -> Item:
    schema, strict = shape.json_schema, False
    try:
        closed, demanding = closed_schema(schema), closed_schema(schema, all_required=True)
    except ValueError:
        closed = demanding = None  # other properties are allowed: not strict, and the answer is checked here
    if closed is not None and (shape.strict or closed == demanding):
        schema, strict = demanding, True
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def _tool_choice(request: ChatRequest, tools: list[Item]) -> Any:
    choice = read_tool_choice(request)
    if choice is None:
        return request.tool_choice
    if choice.mode != "tool":
        return choice.mode
    is_function = any(tool.get("name") == choice.name for tool in tools)
    is_hosted = any(tool["type"] == choice.name for tool in tools)
    return {"type": choice.name} if is_hosted and not is_function else {"type": "function", "name": choice.name}
