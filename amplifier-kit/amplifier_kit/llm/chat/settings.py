"""The config keys of providers that speak chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_kit.llm.settings import read_bool, read_choice, read_float, read_int

__all__ = ["CHAT_KEYS", "STRUCTURED", "ChatSettings"]

#: How an output schema is asked for: `auto` begins with the first way that the server takes.
STRUCTURED: Final = ("auto", "json_schema", "json_object", "tool", "prompt")

#: Keys that `ChatSettings.read` looks at.
CHAT_KEYS: Final = frozenset(
    {
        "temperature",
        "max_tokens",
        "top_p",
        "stop",
        "seed",
        "parallel_tool_calls",
        "reasoning_effort",
        "send_reasoning",
        "think_tags",
        "include_usage",
        "structured_output",
        "warmup_retries",
        "free",
        "price_list",
        "extra_body",
        "extra_headers",
    }
)


@dataclass(frozen=True)
class ChatSettings:
    """Hold what a chat is asked with, unless a request says otherwise."""

    temperature: float | None = 0.7
    #: None leaves the length of answers to the server.
    max_tokens: int | None = 4096
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    parallel_tool_calls: bool = True
    reasoning_effort: str | None = None
    #: Whether thinking goes back to the server with the message that it belongs to.
    send_reasoning: bool = True
    #: Whether `<think>` at the beginning of a text is read as thinking.
    think_tags: bool = True
    include_usage: bool = True
    structured_output: str = "auto"
    #: Further attempts at a server that says it is still starting.
    warmup_retries: int = 10
    #: Whether calls cost nothing; else `price_list` is the price list's name for the service, None when it has none.
    free: bool = False
    price_list: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    extra_headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, config: Mapping[str, Any], **defaults: Any) -> ChatSettings:
        """Read a config; `defaults` are a provider's own. Raises ValueError that names the key and what it must be."""
        base = cls(**defaults)
        return cls(
            temperature=_number(config, "temperature", base.temperature),
            max_tokens=read_int(config, "max_tokens", base.max_tokens or 0) or None,
            top_p=_number(config, "top_p", base.top_p),
            stop=_texts(config, "stop") or base.stop,
            seed=read_int(config, "seed", 0, least=None) if config.get("seed") not in (None, "") else base.seed,
            parallel_tool_calls=read_bool(config, "parallel_tool_calls", base.parallel_tool_calls),
            reasoning_effort=_text(config, "reasoning_effort") or base.reasoning_effort,
            send_reasoning=read_bool(config, "send_reasoning", base.send_reasoning),
            think_tags=read_bool(config, "think_tags", base.think_tags),
            include_usage=read_bool(config, "include_usage", base.include_usage),
            structured_output=read_choice(config, "structured_output", STRUCTURED, None) or base.structured_output,
            warmup_retries=read_int(config, "warmup_retries", base.warmup_retries),
            free=read_bool(config, "free", base.free),
            price_list=_text(config, "price_list") or base.price_list,
            extra_body=_mapping(config, "extra_body"),
            extra_headers={str(name): str(value) for name, value in _mapping(config, "extra_headers").items()},
        )


def _number(config: Mapping[str, Any], key: str, default: float | None) -> float | None:
    """Return a number; null says that the server decides."""
    value = config.get(key, "")
    if value is None or (value == "" and default is None):
        return None
    return read_float(config, key, default or 0.0)


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    return str(value).strip() or None if value is not None else None


def _texts(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key)
    if value is None or value == "":
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"{key}: must be a text or a list of texts, got {value!r}")
    return tuple(texts)


def _mapping(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: must be a mapping, got {value!r}")
    return dict(value)
