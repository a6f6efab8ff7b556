"""Check provider modules."""

from __future__ import annotations

import inspect
from typing import Any

from amplifier_core.data import INTERRUPTS, reason
from amplifier_core.validation._interface import NamedValidator, check_async, check_name
from amplifier_core.validation.base import ValidationCheck, ValidationResult, failing, passing

__all__ = ["ProviderValidator"]


class ProviderValidator(NamedValidator):
    """Check that mount() mounts, or returns, something with the five members of a provider."""

    module_type = "provider"
    mount_point = "providers"
    interface = "Provider"
    members = "name, get_info, list_models, complete, or parse_tool_calls"
    attributes = ("name",)
    methods = ("get_info", "list_models", "complete", "parse_tool_calls")

    def _check_methods(self, result: ValidationResult, obj: Any) -> None:
        result.add(check_name("provider", "Provider", obj))
        result.add(_check_get_info(obj))
        result.add(
            check_async(
                "provider_list_models",
                "Provider.list_models()",
                obj.list_models,
                0,
                "",
                "Provider.list_models() is async",
            )
        )
        result.add(
            check_async(
                "provider_complete",
                "Provider.complete()",
                obj.complete,
                1,
                "Provider.complete() should accept request parameter",
                "Provider.complete() has correct async signature",
            )
        )
        # The interface test has seen to it.
        result.add(passing("provider_parse_tool_calls", "Provider.parse_tool_calls() exists and is callable"))


def _check_get_info(provider: Any) -> ValidationCheck:
    from amplifier_core.models import ProviderInfo

    name = "provider_get_info"
    try:
        info = provider.get_info()
    except INTERRUPTS:
        raise
    except BaseException as error:
        return failing(name, f"Error calling Provider.get_info(): {reason(error)}", "warning")
    if isinstance(info, ProviderInfo):
        return passing(name, "Provider.get_info() returns ProviderInfo")
    if inspect.iscoroutine(info):
        info.close()
    return failing(name, f"Provider.get_info() should return ProviderInfo, got {type(info).__name__}")
