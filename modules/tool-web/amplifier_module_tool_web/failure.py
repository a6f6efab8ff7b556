"""What a tool says when it did not do what it was asked for."""

from __future__ import annotations

from typing import Any

from amplifier_core import ToolResult


class Failure(Exception):
    """A fetch or search failed; the text says what, why and what to do next, `code` is for programs."""

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts

    def as_result(self) -> ToolResult:
        """Return the failure in the form in which tools fail."""
        message = str(self)
        return ToolResult(success=False, output=message, error={"message": message, "code": self.code, **self.facts})
