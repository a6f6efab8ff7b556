"""Build the arguments of a call to Gemini, as the JSON of the service.

The SDK's types are made from it later: so it can be shown and compared, and bytes are base64 as they are in
transcripts. The form of a turn depends on the turn alone, so that a request begins like the request before it.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.message_models import ChatRequest
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
    instruction_text,
    native_spec,
    read_tool_choice,
    safe_id,
)
from amplifier_module_provider_gemini.models import Abilities, abilities_of

if TYPE_CHECKING:
    from amplifier_module_provider_gemini.provider import GeminiConfig

ORIGIN: Final = "gemini"
#: Where a message keeps its original parts, when it used tools that run at Google's.
RAW_CONTENT: Final = "gemini:content"
#: Where a call keeps the signature of the thoughts that led to it, and thinking that of the text after it.
SIGNATURE: Final = "gemini:thought_signature"
TEXT_SIGNATURE: Final = "gemini:text_signature"

_EMPTY: Final = "(empty)"
#: Gemini's marker for a call without signature, as one of another service's model. Base64, like all signatures.
_UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

Json = dict[str, Any]


def contents_of(conversation: Conversation, *, is_third: bool) -> list[Json]:
    """Return the contents, beginning with the user; all results for one message of the model share one content.

    `is_third` is for models of the third generation: they accept images inside of results, and require a signature on
    the first call of a message.
    """
    contents: list[Json] = []
    # Results are not mixed with text: there must be as many as there are calls before them.
    last: str | None = None
    for turn in conversation.turns:
        kind = "model" if turn.role == "assistant" else "results" if turn.role == "tool" else "user"
        parts = _model(turn, is_third) if kind == "model" else list(_user(turn, is_third))
        if not parts:
            continue
        if kind == last:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": "model" if kind == "model" else "user", "parts": parts})
        last = kind
    if contents and contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": _EMPTY}]})
    return contents


# -- the user's side --


def _user(turn: Turn, is_third: bool) -> Iterator[Json]:
    if turn.role in ("system", "developer"):
        if text := instruction_text(turn):
            yield {"text": text}
        return
    for part in turn.parts:
        if isinstance(part, Result):
            yield from _result(part, is_third)
        elif isinstance(part, Image):
            yield _image(part)
        elif isinstance(part, Text) and part.text.strip():
            yield {"text": part.text}


def _result(result: Result, is_third: bool) -> Iterator[Json]:
    said = result.text if result.text.strip() else "(see the image)" if result.images else _EMPTY
    response: Json = {"id": safe_id(result.call_id), "name": result.name or "tool", "response": {"result": said}}
    images = [_image(image) for image in result.images]
    if is_third and images:
        response["parts"] = images
    yield {"functionResponse": response}
    if not is_third:
        yield from images


def _image(image: Image) -> Json:
    if image.data is not None:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    kind = mimetypes.guess_type((image.url or "").partition("?")[0])[0]
    return {"fileData": {"mimeType": kind or image.media_type, "fileUri": image.url}}


# -- the model's side --


def _model(turn: Turn, is_third: bool) -> list[Json]:
    raw = turn.metadata.get(RAW_CONTENT)
    calls = [part.id for part in turn.parts if isinstance(part, Call)]
    if isinstance(raw, list) and raw and _called(raw) == calls:
        return [dict(part) for part in raw]
    parts = _written(turn.of_origin(ORIGIN).parts)
    called = [part for part in parts if "functionCall" in part]
    if is_third and called and not any("thoughtSignature" in part for part in called):
        called[0]["thoughtSignature"] = _UNSIGNED
    # Gemini refuses thoughts alone.
    return parts if any(not part.get("thought") for part in parts) else []


def _called(raw: Iterable[Json]) -> list[Any]:
    return [part["functionCall"].get("id") for part in raw if "functionCall" in part]


def _written(given: Iterable[Part]) -> list[Json]:
    parts: list[Json] = []
    text_signature: str | None = None
    for part in given:
        match part:
            case Text() if part.text.strip():
                parts.append({"text": part.text})
            case Thinking():
                text_signature = _text_signature(part) or text_signature
                # Unsigned thoughts are a summary for people and mean nothing to the model.
                if part.signature:
                    parts.append({"text": part.text, "thought": True, "thoughtSignature": part.signature})
            case Call():
                parts.append(_call(part))
            case Image():
                parts.append(_image(part))
            case Redacted() | Result() | Text():
                pass  # of another service, misplaced, or blank
    if text_signature is not None:
        last = next((part for part in reversed(parts) if "text" in part and not part.get("thought")), None)
        if last is not None:
            last["thoughtSignature"] = text_signature
    return parts


def _text_signature(thinking: Thinking) -> str | None:
    kept = thinking.content if isinstance(thinking.content, list) else []
    found = [item[TEXT_SIGNATURE] for item in kept if isinstance(item, dict) and TEXT_SIGNATURE in item]
    return str(found[0]) if found else None


def _call(call: Call) -> Json:
    part: Json = {"functionCall": {"id": safe_id(call.id), "name": call.name, "args": call.arguments}}
    if call.extra.get(SIGNATURE):
        part["thoughtSignature"] = call.extra[SIGNATURE]
    return part


# -- the arguments --


_BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
#: Lets the model decide.
_DYNAMIC: Final = -1


def build_payload(call: LLMCall, settings: GeminiConfig) -> Json:
    """Return model, contents and config, in the JSON of the service."""
    able = abilities_of(call.model)
    request = call.request
    wanted: Json = {}
    system = [{"text": text} for text in call.conversation.system if text.strip()]
    wanted |= {"systemInstruction": {"parts": system}} if system else {}
    tools = _tools(request)
    wanted |= {"tools": tools} if tools else {}
    choice = _tool_choice(request)
    if choice and any("functionDeclarations" in tool for tool in tools):
        wanted["toolConfig"] = {"functionCallingConfig": choice}
    thinking = _thinking(call, able)
    wanted["maxOutputTokens"] = _max_tokens(request, settings, able, thinking)
    wanted |= _sampling(request, settings, able)
    wanted |= {"stopSequences": request.stop} if request.stop else {}
    wanted |= {"thinkingConfig": thinking} if thinking else {}
    if call.shape is not None and call.shape.mode == "native":
        wanted["responseMimeType"] = "application/json"
        if call.shape.schema is not None:
            wanted["responseJsonSchema"] = _without_dialect(call.shape.schema)
    return {
        "model": call.model,
        "contents": contents_of(call.conversation, is_third=able.is_third),
        "config": {**wanted, "automaticFunctionCalling": {"disable": True}},
    }


def _tools(request: ChatRequest) -> list[Json]:
    """Return one tool with all functions, and each of Google's native tools as it is."""
    functions, own = [], []
    for tool in request.tools or ():
        native = native_spec(tool)
        if native is None:
            schema = _without_dialect(function_parameters(tool))
            described = {"name": tool.name, "description": tool.description or "", "parametersJsonSchema": schema}
            functions.append(described)
        else:
            own.append({native["type"]: {key: native[key] for key in native if key not in ("type", "name")}})
    return [*([{"functionDeclarations": functions}] if functions else []), *own]


def _without_dialect(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _tool_choice(request: ChatRequest) -> Json | None:
    choice = read_tool_choice(request)
    if choice is None:
        return {"mode": "AUTO"} if request.tool_choice else None
    if choice.mode == "tool":
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": "ANY" if choice.mode == "required" else choice.mode.upper()}


def _thinking(call: LLMCall, able: Abilities) -> Json | None:
    """Return the thinking options; None leaves thinking to the model, which then does not show its thoughts."""
    effort = call.request.reasoning_effort
    if not able.thinks or (effort is None and not call.options.get("extended_thinking")):
        return None
    if able.has_levels:
        level = _level(effort, able)
        shown = {} if effort == "none" else {"includeThoughts": True}
        return {**shown, **({"thinkingLevel": level} if level else {})}
    if effort == "none":
        return {"thinkingBudget": able.least_budget}
    wish = call.options.get("thinking_budget_tokens") or (_BUDGETS.get(effort, able.most_budget) if effort else None)
    budget = _DYNAMIC if wish is None else max(able.least_budget, min(int(wish), able.most_budget))
    return {"includeThoughts": True, "thinkingBudget": budget}


def _level(effort: str | None, able: Abilities) -> str | None:
    if effort is None:
        return None
    if effort in ("none", "minimal"):
        return "MINIMAL" if able.has_minimal else "LOW"
    if effort == "medium":
        return "MEDIUM" if able.has_medium else "HIGH"
    return "LOW" if effort == "low" else "HIGH"


def _max_tokens(request: ChatRequest, settings: GeminiConfig, able: Abilities, thinking: Json | None) -> int:
    """Return the limit of the whole answer, which includes thoughts; models think unless the request forbids it.

    The limit of a request is taken literally, except that a thinking budget must leave room for the answer.
    """
    budget = (thinking or {}).get("thinkingBudget", _DYNAMIC)
    if request.max_output_tokens:
        wanted = request.max_output_tokens
        return min(wanted + budget if budget >= wanted else wanted, able.max_output)
    room = 0 if not able.thinks else able.most_budget if budget == _DYNAMIC else budget
    return min(settings.max_tokens + room, able.max_output)


def _sampling(request: ChatRequest, settings: GeminiConfig, able: Abilities) -> Json:
    sampling: Json = {}
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    elif settings.temperature is not None and (settings.is_given("temperature") or not able.is_third):
        # Google warns that models of the third generation loop below their default temperature.
        sampling["temperature"] = settings.temperature
    return sampling | ({"topP": request.top_p} if request.top_p is not None else {})
