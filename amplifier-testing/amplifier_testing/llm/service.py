"""A whole service, for programs in other processes: it has models, requires a key, and always answers the same.

It refuses what the real one refuses, in its words: a wrong key, an unknown model, an unknown path.
`python -m amplifier_testing.llm` runs one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from amplifier_testing.llm.anthropic import AnthropicWire
from amplifier_testing.llm.chat import ChatWire
from amplifier_testing.llm.gemini import GeminiWire
from amplifier_testing.llm.ollama import OllamaWire
from amplifier_testing.llm.reply import Reply
from amplifier_testing.llm.responses import ResponsesWire
from amplifier_testing.llm.script import Said, WireServer
from amplifier_testing.llm.server import Heard

__all__ = ["PROTOCOLS", "Service"]


class Refusal(NamedTuple):
    """What a service answers in place of a model: a status, its word for it, and a text to fill in."""

    status: int
    kind: str
    text: str


@dataclass(frozen=True)
class Protocol:
    """How one protocol is spoken: its paths, where keys are, and how it refuses."""

    wire: WireServer
    #: Where the models are listed.
    listing: tuple[str, ...]
    #: Where the model is called; `*` matches its name.
    calling: tuple[str, ...]
    #: Headers that may hold the key.
    key_headers: tuple[str, ...]
    #: The texts get `key` and `model`.
    wrong_key: Refusal
    wrong_model: Refusal
    #: The default model.
    model: str


_OPENAI_KEY: Final = Refusal(401, "invalid_api_key", "Incorrect API key provided: {key}.")
_OPENAI_MODEL: Final = Refusal(
    404, "model_not_found", "The model `{model}` does not exist or you have no access to it."
)

PROTOCOLS: Final[dict[str, Protocol]] = {
    "anthropic": Protocol(
        AnthropicWire(),
        listing=("/v1/models",),
        calling=("/v1/messages",),
        key_headers=("x-api-key", "authorization"),
        wrong_key=Refusal(401, "authentication_error", "invalid x-api-key"),
        wrong_model=Refusal(404, "not_found_error", "model: {model}"),
        model="claude-sonnet-4-5",
    ),
    "chat": Protocol(
        ChatWire(),
        listing=("/v1/models",),
        calling=("/v1/chat/completions",),
        key_headers=("authorization",),
        wrong_key=_OPENAI_KEY,
        wrong_model=_OPENAI_MODEL,
        model="small-model",
    ),
    "gemini": Protocol(
        GeminiWire(),
        listing=("/v1beta/models",),
        calling=("/v1beta/models/*:streamGenerateContent",),
        key_headers=("x-goog-api-key",),
        wrong_key=Refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        wrong_model=Refusal(404, "NOT_FOUND", "models/{model} is not found for API version v1beta"),
        model="gemini-2.5-flash",
    ),
    "ollama": Protocol(
        OllamaWire(),
        listing=("/api/tags",),
        calling=("/api/chat",),
        key_headers=("authorization",),
        wrong_key=Refusal(401, "", "unauthorized"),
        wrong_model=Refusal(404, "", 'model "{model}" not found, try pulling it first'),
        model="llama3.2:3b",
    ),
    "responses": Protocol(
        ResponsesWire(),
        listing=("/v1/models", "/openai/v1/models", "/openai/models"),
        calling=("/v1/responses", "/openai/v1/responses", "/openai/responses"),
        key_headers=("authorization", "api-key"),
        wrong_key=_OPENAI_KEY,
        wrong_model=_OPENAI_MODEL,
        model="gpt-5.5",
    ),
}


class Service:
    """Answer as one service does: `server.answers(Service("chat").answer)`."""

    def __init__(
        self, protocol: str, *, models: tuple[str, ...] = (), key: str | None = None, text: str = "Hello world"
    ) -> None:
        """Speak a protocol of PROTOCOLS; without a key any will do. Raises KeyError for an unknown protocol."""
        self.protocol = PROTOCOLS[protocol]
        self.models = models or (self.protocol.model,)
        self.key = key
        self.text = text

    def answer(self, heard: Heard) -> Reply:
        """Answer one request."""
        path = heard.path.partition("?")[0]
        asked = self._asked(path, heard)
        if asked is None:
            return Reply.page(404, "Not Found")
        given = self._given_key(heard)
        if self.key is not None and given != self.key:
            return self._refused(self.protocol.wrong_key, key=given)
        return asked()

    def _asked(self, path: str, heard: Heard) -> Callable[[], Reply] | None:
        """Return the handler of a path, None for an unknown path."""
        wire = self.protocol.wire
        if path in self.protocol.listing:
            return lambda: wire.models(*self.models)
        if isinstance(wire, OllamaWire) and path == "/api/show":
            return lambda: self._described(wire, heard.json)
        if isinstance(wire, OllamaWire) and path == "/api/ps":
            return wire.loaded
        for pattern in self.protocol.calling:
            before, star, after = pattern.partition("*")
            if path == pattern:
                return lambda: self._called(str((heard.json or {}).get("model")), heard)
            if star and path.startswith(before) and path.endswith(after):
                return lambda: self._called(path[len(before) : len(path) - len(after)], heard)
        return None

    def _called(self, model: str, heard: Heard) -> Reply:
        if model not in self.models:
            return self._refused(self.protocol.wrong_model, model=model)
        words = self.text.split(" ")
        pieces = (words[0], *(f" {word}" for word in words[1:]))
        said = Said(text=pieces, output_tokens=len(pieces), model=model)
        wire = self.protocol.wire
        return wire.either(said)(heard) if isinstance(wire, ChatWire) else wire.reply(said)

    def _described(self, wire: OllamaWire, body: Any) -> Reply:
        model = str((body or {}).get("model"))
        if model not in self.models:
            return self._refused(self.protocol.wrong_model, model=model)
        return wire.shown("completion", "tools")

    def _given_key(self, heard: Heard) -> str:
        given = next((heard.headers[name] for name in self.protocol.key_headers if name in heard.headers), "")
        return given.removeprefix("Bearer ")

    def _refused(self, refusal: Refusal, **facts: str) -> Reply:
        return self.protocol.wire.refusal(refusal.status, refusal.kind, refusal.text.format(**facts))
