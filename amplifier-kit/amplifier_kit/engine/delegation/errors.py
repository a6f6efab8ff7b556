"""Errors of delegation, worded for the model."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.models import ToolResult

__all__ = ["DelegationError", "error_text"]

_LONGEST: Final = 4_000


class DelegationError(Exception):
    """A delegation failed; the message is for the model, `code` for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:_LONGEST])
        self.code = code

    def result(self, **more: Any) -> ToolResult:
        """Return the failure as the result of a tool."""
        return ToolResult(success=False, output=str(self), error={"message": str(self), "code": self.code, **more})


def error_text(error: BaseException) -> str:
    """Return the message of any exception, of bounded length."""
    try:
        text = str(error)
    except Exception:  # its own __str__ failed
        text = ""
    return (text or type(error).__name__)[:_LONGEST]
