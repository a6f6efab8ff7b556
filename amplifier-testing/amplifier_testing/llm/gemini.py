"""Gemini's protocol, as its official SDK reads it."""

from __future__ import annotations

from typing import Any, Final

from amplifier_testing.llm.reply import Reply, sse
from amplifier_testing.llm.script import Said

__all__ = ["GeminiWire"]

_REASONS: Final = {"stop": "STOP", "tool_use": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiWire:
    """Speak Gemini's protocol: `POST /v1beta/models/NAME:streamGenerateContent` with events, `GET /v1beta/models`."""

    path = "/v1beta/models"
    first_text = 1

    def reply(self, said: Said) -> Reply:
        """Return a streamed answer; the signature stands where Gemini puts it: on the first call, else on the text."""
        parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in said.thinking]
        parts += [{"text": piece} for piece in said.text]
        for number, (call_id, name, arguments) in enumerate(said.calls):
            signed = {"thoughtSignature": said.signature} if said.thinking and number == 0 else {}
            parts.append({"functionCall": {"id": call_id, "name": name, "args": arguments}, **signed})
        if said.thinking and not said.calls:
            parts.append({"text": "", "thoughtSignature": said.signature})
        events = [self._event(said, part) for part in parts]
        events.append(self._event(said, None, finishReason=_REASONS.get(said.reason, said.reason)))
        return Reply.stream(events).with_headers(**said.headers)

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error of the API; `kind` counts only for statuses without their own name."""
        word = _STATUSES.get(status, kind or "UNKNOWN")
        return Reply.error(status, {"error": {"code": status, "message": message, "status": word}}, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""
        code = next((code for code, word in _STATUSES.items() if word == kind), 500)
        return sse({"error": {"code": code, "message": message, "status": kind}})

    def ping(self) -> bytes:
        """Return an event that says nothing: the SDK does not understand comments."""
        return sse({"usageMetadata": {"promptTokenCount": 1}})

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""
        return sse('{"candidates": [{"content": {"parts": [')

    def models(self, *names: str) -> Reply:
        """Return a list of models."""
        listed = [
            {
                "name": f"models/{name}",
                "displayName": name.title(),
                "inputTokenLimit": 1_000_000,
                "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
            }
            for name in names
        ]
        return Reply.json({"models": listed})

    def _event(self, said: Said, part: dict[str, Any] | None, **ended: str) -> bytes:
        usage = {"promptTokenCount": said.prompt_tokens, "candidatesTokenCount": said.output_tokens}
        usage |= {"cachedContentTokenCount": said.cache_read} if said.cache_read else {}
        candidate: dict[str, Any] = {"index": 0, **ended}
        if part is not None:
            candidate["content"] = {"role": "model", "parts": [part]}
        return sse(
            {
                "candidates": [candidate],
                "usageMetadata": usage,
                "modelVersion": said.model or "gemini-2.5-flash",
                "responseId": "response-test",
            }
        )
