"""Say why work cannot be handed over, or did not come back, in words that a model can act on."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.models import ToolResult

__all__ = ["Problem", "told"]

_LONGEST: Final = 4_000


class Problem(Exception):
    """A call cannot be carried out; the text is for the model, `code` for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:_LONGEST])
        self.code = code

    def result(self, **more: Any) -> ToolResult:
        """Return the failure as the result of a tool."""
        return ToolResult(success=False, output=str(self), error={"message": str(self), "code": self.code, **more})


def told(error: BaseException) -> str:
    """Return what an exception says, whatever it is, in bounded length."""
    try:
        text = str(error)
    except Exception:  # one that cannot even say what it is
        text = ""
    return (text or type(error).__name__)[:_LONGEST]
