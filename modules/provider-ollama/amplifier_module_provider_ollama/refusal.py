"""What Ollama says when it refuses, with what its SDK leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

__all__ = ["Refusal"]

_NOT_FOUND: Final = 404
_OVERFLOW: Final = ("context length", "context size", "exceed_context")


class Refusal(Exception):
    """Carry a refusal in the form that errors are read from: a status, a body, and the headers of the response."""

    def __init__(self, text: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(text)
        self.body: Any = text
        self.status_code = status
        self.response = SimpleNamespace(headers=dict(headers))

    @classmethod
    def of(cls, error: Any, headers: Mapping[str, str]) -> Refusal:
        """Return what the SDK's ResponseError says; one from inside a stream has no status, and is the server's fault.

        Except that the window is full, which is nobody's.
        """
        text, status = str(error.error), int(error.status_code)
        if status < 0:
            status = 400 if _overflows(text) else 500
        return cls(text, status, headers)

    @property
    def is_overflow(self) -> bool:
        """Tell whether the conversation does not fit the window."""
        return _overflows(str(self))

    @property
    def is_unknown_model(self) -> bool:
        """Tell whether the server does not have the model."""
        return self.status_code == _NOT_FOUND and "not found" in str(self)

    @property
    def is_about_thinking(self) -> bool:
        """Tell whether the model cannot think."""
        return "does not support thinking" in str(self)


def _overflows(text: str) -> bool:
    return any(word in text.lower() for word in _OVERFLOW)
