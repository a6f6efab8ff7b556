"""How the kernel shows a hook's message to a person; an app supplies the implementation."""

from typing import Literal, Protocol

__all__ = ["DisplaySystem"]


class DisplaySystem(Protocol):
    """Show messages to a person."""

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show `message` at once; it is called synchronously and its result is not awaited."""
        ...
