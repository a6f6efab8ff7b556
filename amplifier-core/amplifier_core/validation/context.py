"""Check context modules."""

from __future__ import annotations

from typing import Any

from amplifier_core.validation._interface import SingleValidator, check_async
from amplifier_core.validation.base import ValidationResult

__all__ = ["ContextValidator"]

#: Parameters that a method must accept.
_ARGUMENTS = {"add_message": ("message",), "set_messages": ("messages",)}


class ContextValidator(SingleValidator):
    """Check that mount() mounts, or returns, something with the five methods of a context manager."""

    module_type = "context"
    mount_point = "context"
    interface = "ContextManager"
    members = "add_message, get_messages_for_request, get_messages, set_messages, or clear"
    methods = ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear")

    def _check_methods(self, result: ValidationResult, obj: Any) -> None:
        for method in self.methods:
            arguments = _ARGUMENTS.get(method, ())
            called = f"ContextManager.{method}()"
            result.add(
                check_async(
                    f"context_{method}",
                    called,
                    getattr(obj, method),
                    len(arguments),
                    f"{called} should accept ({', '.join(arguments)}), found {{n}} params",
                    f"{called} has correct async signature",
                )
            )
