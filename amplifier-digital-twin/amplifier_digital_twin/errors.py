"""The faults of a universe: what is wrong, why, what to do next, and a code for machines."""

from __future__ import annotations

from amplifier_foundation.errors import FoundationError


class TwinError(FoundationError):
    """Something about a universe cannot be done; `code` is stable and documented, `remedy` says what to do next."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        #: Of the instance, because one class serves every fault that differs in nothing but its words.
        self.code = code  # type: ignore[misc]
        self.message = message
        self.remedy = remedy

    def record(self) -> dict[str, str]:
        """Return the fault as the JSON that programs read."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy}
