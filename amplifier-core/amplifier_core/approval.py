"""How the kernel asks a person for permission; an app supplies the implementation."""

from typing import Literal, Protocol

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]


class ApprovalTimeoutError(Exception):
    """Say that nobody answered in time; the default then decides, and nobody has refused."""


class ApprovalSystem(Protocol):
    """Put a question to a person and return the answer."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return one of `options`; raise `ApprovalTimeoutError` after `timeout` seconds without an answer."""
        ...
