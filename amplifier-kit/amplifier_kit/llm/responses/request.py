"""Build the arguments of `responses.create` for a call.

The form of a turn depends on the turn alone, so that a request begins like the request before it, which services cache.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    LLMCall,
    Part,
    Result,
    Text,
    Thinking,
    Turn,
    function_parameters,
    native_spec,
    read_tool_choice,
    safe_id,
)
from amplifier_kit.llm.responses.config import ResponsesConfig
from amplifier_kit.llm.responses.models import Abilities
from amplifier_kit.llm.structured_output import Shape, closed_schema

__all__ = [
    "PATCH_CALL",
    "PATCH_TOOL",
    "Item",
    "Link",
    "Plan",
    "build_payload",
    "chain_key",
    "digest_content",
    "digest_of",
    "find_link",
    "is_plain_object",
    "items_of",
    "origin_key",
    "output_key",
    "reasoning_ids",
    "tail_of",
]

logger = logging.getLogger(__name__)

# -- items --


PATCH_TOOL: Final = "apply_patch"
PATCH_CALL: Final = "apply_patch_call"

_APPLIED: Final = re.compile(r"^[AMD] \S")

Item = dict[str, Any]


def origin_key(origin: str) -> str:
    """Return the key under which a block keeps the id and facts of its item."""
    return f"{origin}:item"


def output_key(origin: str) -> str:
    """Return the key under which a message keeps its original items, when tools ran at the service."""
    return f"{origin}:output"


def items_of(conversation: Conversation, origin: str, unreadable: Collection[str] = ()) -> list[list[Item]]:
    """Return the items of each turn, without reasoning whose id is in `unreadable`."""
    patches = {
        part.id
        for turn in conversation.turns
        for part in turn.parts
        if isinstance(part, Call) and _is_patch(part, origin)
    }
    return [_written(turn, origin, unreadable, patches) for turn in conversation.turns]


def reasoning_ids(items: Iterable[Item]) -> set[str]:
    """Return the ids of reasoning items."""
    return {str(item.get("id")) for item in items if item.get("type") == "reasoning"}


def _written(turn: Turn, origin: str, unreadable: Collection[str], patches: set[str]) -> list[Item]:
    if turn.role == "assistant":
        return _assistant(turn, origin, unreadable)
    if turn.role == "tool":
        return [_result(part, patches) for part in turn.parts if isinstance(part, Result)]
    content = [_shown(part) for part in turn.parts if isinstance(part, Text | Image)]
    # Later instructions stay where they are, under the service's role for them.
    role = "user" if turn.role == "user" else "developer"
    return [{"type": "message", "role": role, "content": content}] if content else []


def _assistant(turn: Turn, origin: str, unreadable: Collection[str]) -> list[Item]:
    raw = turn.metadata.get(output_key(origin))
    items = [dict(item) for item in raw] if isinstance(raw, list) and _match(raw, turn) else []
    if not items:
        items = _blocks(turn.of_origin(origin), origin)
    kept = [item for item in items if item["type"] != "reasoning" or item.get("id") not in unreadable]
    # The service refuses reasoning without the item that followed it.
    while kept and kept[-1]["type"] == "reasoning":
        kept.pop()
    return kept


def _blocks(turn: Turn, origin: str) -> list[Item]:
    items: list[Item] = []
    for part in turn.parts:
        match part:
            case Text():
                _add_text(items, part, part.extra.get(origin_key(origin)))
            case Thinking(content=[{"type": "reasoning"} as item]):
                items.append(dict(item))
            case Call():
                items.append(_call(part, origin))
    return items


def _add_text(items: list[Item], part: Text, known: Any) -> None:
    content = {"type": "output_text", "text": part.text, "annotations": []}
    facts = known if isinstance(known, dict) else {}
    if items and facts and items[-1].get("id") == facts.get("id"):
        items[-1]["content"].append(content)
        return
    if not facts:
        content.pop("annotations")
    items.append({"type": "message", "role": "assistant", "content": [content], **facts})


def _call(part: Call, origin: str) -> Item:
    known = part.extra.get(origin_key(origin))
    facts = known if isinstance(known, dict) else {}
    if _is_patch(part, origin):
        return {"call_id": safe_id(part.id), "operation": part.arguments, "status": "completed", **facts}
    # Without spaces, as models write it: so the request is the same as the cached one.
    arguments = json.dumps(part.arguments, ensure_ascii=False, separators=(",", ":"))
    return {
        "type": "function_call",
        "call_id": safe_id(part.id),
        "name": part.name,
        "arguments": arguments,
        **facts,
    }


def _is_patch(part: Call, origin: str) -> bool:
    known = part.extra.get(origin_key(origin))
    return isinstance(known, dict) and known.get("type") == PATCH_CALL


def _result(part: Result, patches: set[str]) -> Item:
    call_id = safe_id(part.call_id)
    if part.call_id in patches:
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
    texts = [
        content.get("text", "")
        for item in raw
        if item["type"] == "message"
        for content in item.get("content") or ()
        if content.get("type") == "output_text"
    ]
    said = [part.text for part in turn.parts if isinstance(part, Text)]
    return calls == [part.id for part in turn.parts if isinstance(part, Call)] and "".join(texts) == "".join(said)


# -- continuing from a stored response --


class Link(NamedTuple):
    """The response to continue from, and the number of turns that it covers."""

    response_id: str
    turns: int


def chain_key(prefix: str) -> str:
    """Return the key under which a message keeps its digest."""
    return f"{prefix}:chain"


def digest_of(place: str, before: Iterable[Item], said: Any) -> str:
    """Return the digest of a history: its address, the items before an answer, and the content of the answer."""
    from hashlib import sha256

    whole = json.dumps([place, list(before), said], sort_keys=True, ensure_ascii=False, default=str)
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def digest_content(content: Iterable[Any]) -> Any:
    """Return the content of a response for `digest_of`, in the form that `find_link` reads from a turn."""
    blocks = list(content)
    text = "".join(block.text for block in blocks if block.type == "text")
    return [text, [[block.id, block.name, block.input] for block in blocks if block.type == "tool_call"]]


def find_link(
    conversation: Conversation, items: Sequence[list[Item]], place: str, prefix: str, broken: set[str]
) -> Link | None:
    """Return the response to continue from, None when the history has to be sent; `items` are those of the turns.

    A message keeps the id of its response and a digest of everything up to its end. Only while the history still has
    that digest is the id sent in its place: what a hook added for one request, a compaction, another model or another
    address change the digest, and then everything is sent.
    """
    turns = conversation.turns
    at = next((index for index in reversed(range(len(turns))) if turns[index].role == "assistant"), None)
    if at is None or not any(items[at + 1 :]):
        return None
    response_id, mark = (turns[at].metadata.get(key) for key in (f"{prefix}:response_id", chain_key(prefix)))
    if not isinstance(response_id, str) or not isinstance(mark, str) or response_id in broken:
        return None
    before = [item for turn in items[:at] for item in turn]
    return Link(response_id, at + 1) if digest_of(place, before, _said(turns[at].parts)) == mark else None


def tail_of(items: Sequence[list[Item]], link: Link | None) -> list[Item]:
    """Return the items that the service does not have."""
    return [item for turn in items[link.turns if link else 0 :] for item in turn]


def _said(parts: Iterable[Part]) -> Any:
    known = list(parts)
    text = "".join(part.text for part in known if isinstance(part, Text))
    return [text, [[part.id, part.name, part.arguments] for part in known if isinstance(part, Call)]]


# -- the arguments --


#: Tools that run at the service and are sources for research models.
_SOURCES: Final = ("web_search", "file_search", "mcp")
_warned: Final[set[str]] = set()


@dataclass(frozen=True)
class Plan:
    """The inputs of a payload besides the call."""

    settings: ResponsesConfig
    able: Abilities
    #: Whether the service stores the response.
    stores: bool
    #: Whether the tool `apply_patch` is the native one of the service.
    patches_natively: bool


def build_payload(call: LLMCall, plan: Plan, items: list[Item], previous: str | None) -> dict[str, Any]:
    """Return the arguments; `items` continue the response `previous`, if there is one."""
    settings, able, request = plan.settings, plan.able, call.request
    tools = _tools(request, plan)
    reasoning = _reasoning(call, plan)
    payload: dict[str, Any] = {"model": call.model}
    payload |= {"instructions": "\n\n".join(call.conversation.system)} if call.conversation.system else {}
    payload |= {"tools": tools} if tools else {}
    payload |= {"input": items, "store": plan.stores}
    payload |= {"previous_response_id": previous} if previous else {}
    payload["max_output_tokens"] = min(request.max_output_tokens or settings.max_tokens, able.max_output)
    payload |= {"reasoning": reasoning} if reasoning else {}
    payload |= {"include": ["reasoning.encrypted_content"]} if able.thinks else {}
    payload |= _sampling(request, settings, reasoning, able)
    payload |= {"text": {"format": _format(call.shape)}} if call.shape and call.shape.mode == "native" else {}
    choice = _tool_choice(request, tools)
    payload |= {"tool_choice": choice} if choice is not None and tools else {}
    parallel = (request.metadata or {}).get("parallel_tool_calls")
    payload |= {"parallel_tool_calls": bool(parallel)} if parallel is not None and tools else {}
    payload |= {"background": True} if able.runs_in_background else {}
    payload |= _whole_session(call, plan)
    if request.stop and "stop" not in _warned:
        _warned.add("stop")
        logger.warning("the Responses API has no stop sequences: `stop` of the request is ignored")
    return payload


def _whole_session(call: LLMCall, plan: Plan) -> dict[str, Any]:
    """Return the arguments that are the same for every call of a session."""
    settings = plan.settings
    retention, is_given = settings.prompt_cache_retention, settings.is_given("prompt_cache_retention")
    same = {
        "truncation": settings.truncation,
        "prompt_cache_key": settings.prompt_cache_key,
        "prompt_cache_retention": retention if plan.able.caches_long or is_given else None,
        "safety_identifier": settings.safety_identifier,
        "metadata": {"session_id": call.session_id} if call.session_id else None,
    }
    return {key: value for key, value in same.items() if value is not None}


def _tools(request: ChatRequest, plan: Plan) -> list[Item]:
    tools = [_tool(tool, plan) for tool in request.tools or ()]
    if not plan.able.takes_functions:
        tools = [tool for tool in tools if tool["type"] != "function"]
        if not any(tool["type"].startswith(_SOURCES) for tool in tools):
            tools.append({"type": "web_search_preview"})
    return tools


def _tool(tool: ToolSpec, plan: Plan) -> Item:
    native = native_spec(tool)
    if native is not None:
        return {key: value for key, value in native.items() if key != "name"}
    if tool.name == PATCH_TOOL and plan.patches_natively and plan.able.patches:
        return {"type": PATCH_TOOL}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": function_parameters(tool),
        # By default, the service is strict about schemas in a way that few schemas support.
        "strict": False,
    }


def _reasoning(call: LLMCall, plan: Plan) -> dict[str, Any]:
    """Return the reasoning options that the request, the loop or the config asks for."""
    settings, able = plan.settings, plan.able
    wish = call.request.reasoning_effort or settings.reasoning.get("effort")
    if not able.thinks or not (wish or settings.reasoning or call.options.get("extended_thinking")):
        return {}
    reasoning = dict(settings.reasoning)
    if wish:
        reasoning["effort"] = able.effort(str(wish))
    if settings.reasoning_summary and reasoning.get("effort") != "none":
        reasoning.setdefault("summary", settings.reasoning_summary)
    return reasoning


def _sampling(
    request: ChatRequest, settings: ResponsesConfig, reasoning: dict[str, Any], able: Abilities
) -> dict[str, Any]:
    if able.thinks and reasoning.get("effort") != "none":
        return {}  # thinking models refuse both
    temperature = request.temperature if request.temperature is not None else settings.temperature
    sampling = {"temperature": temperature, "top_p": request.top_p}
    return {key: value for key, value in sampling.items() if value is not None}


def is_plain_object(schema: Any) -> bool:
    """Return whether a schema is that of an object, the only kind that the service accepts."""
    return isinstance(schema, dict) and schema.get("type") == "object" and "anyOf" not in schema


def _format(shape: Shape) -> Item:
    schema, strict = shape.json_schema, False
    try:
        closed, demanding = closed_schema(schema), closed_schema(schema, all_required=True)
    except ValueError:
        closed = demanding = None  # other properties are allowed: not strict, and the answer is checked here
    if closed is not None and (shape.strict or _sorted(closed) == _sorted(demanding)):
        schema, strict = demanding, True
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


def _sorted(schema: Any) -> Any:
    """Return a schema with sorted lists of required names, for comparison."""
    if isinstance(schema, list):
        return [_sorted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: sorted(value) if key == "required" and isinstance(value, list) else _sorted(value)
        for key, value in schema.items()
    }


def _tool_choice(request: ChatRequest, tools: list[Item]) -> Any:
    choice = read_tool_choice(request)
    if choice is None:
        return request.tool_choice
    if choice.mode != "tool":
        return choice.mode
    is_function = any(tool.get("name") == choice.name for tool in tools)
    is_hosted = any(tool["type"] == choice.name for tool in tools)
    return {"type": choice.name} if is_hosted and not is_function else {"type": "function", "name": choice.name}
