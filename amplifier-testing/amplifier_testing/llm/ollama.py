"""Ollama's protocol, as its official SDK reads it."""

from __future__ import annotations

import json
from typing import Any

from amplifier_testing.llm.reply import Reply
from amplifier_testing.llm.script import Said

__all__ = ["OllamaWire"]

_MOMENT = "2026-01-01T00:00:00Z"


class OllamaWire:
    """Speak Ollama's protocol: `POST /api/chat` with a line of JSON per piece, `GET /api/tags`, and more."""

    path = "/api/chat"
    first_text = 1

    def reply(self, said: Said) -> Reply:
        """Return a streamed answer."""
        lines = [self._line(said, thinking=piece, content="") for piece in said.thinking]
        lines += [self._line(said, content=piece) for piece in said.text]
        for call_id, name, arguments in said.calls:
            call = {"id": call_id, "function": {"index": 0, "name": name, "arguments": arguments}}
            lines.append(self._line(said, content="", tool_calls=[call]))
        # Ollama has no separate reason for ending with a call.
        reason = "stop" if said.reason == "tool_use" else said.reason
        counts = {"prompt_eval_count": said.prompt_tokens, "eval_count": said.output_tokens, "total_duration": 1}
        lines.append(self._line(said, {"done": True, "done_reason": reason, **counts}, content=""))
        return Reply.stream(lines, content_type="application/x-ndjson").with_headers(**said.headers)

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return an error; Ollama's errors have no kind."""
        return Reply.error(status, {"error": message}, **headers)

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream, which is `kind` and `message` in one text."""
        return _json({"error": f"{kind}: {message}"})

    def ping(self) -> bytes:
        """Return a piece without anything in it."""
        return self._line(Said(), content="")

    def garbage(self) -> bytes:
        """Return a line whose JSON is broken."""
        return b'{"model": "llama3.2:3b", "message": {"role": "assist\n'

    def models(self, *names: str) -> Reply:
        """Return a list of models."""
        listed = [{"name": name, "model": name, "modified_at": _MOMENT, "size": 1, "digest": "d"} for name in names]
        return Reply.json({"models": listed})

    def shown(self, *abilities: str, context_length: int = 131_072) -> Reply:
        """Return what `POST /api/show` says of a model."""
        info = {"general.architecture": "llama", "llama.context_length": context_length}
        return Reply.json({"model_info": info, "capabilities": list(abilities), "modified_at": _MOMENT})

    def loaded(self, **lengths: int) -> Reply:
        """Return what `GET /api/ps` says of loaded models: names, with `__` for a colon, and their context lengths."""
        models = [{"model": name.replace("__", ":"), "context_length": length} for name, length in lengths.items()]
        return Reply.json({"models": models})

    def pulling(self, *statuses: str) -> Reply:
        """Return the progress of `POST /api/pull`."""
        lines = [_json({"status": status, "total": 100, "completed": 50}) for status in statuses]
        return Reply.stream(lines, content_type="application/x-ndjson")

    def _line(self, said: Said, ended: dict[str, Any] | None = None, **message: Any) -> bytes:
        return _json(
            {
                "model": said.model or "llama3.2:3b",
                "created_at": _MOMENT,
                "message": {"role": "assistant", **message},
                **(ended or {"done": False}),
            }
        )


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
