"""Protocols: the shape of each kind of module, and the approval models."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import approval, display, interfaces, message_models, models
from amplifier_core.approval import ApprovalSystem, ApprovalTimeoutError
from amplifier_core.display import DisplaySystem
from amplifier_core.interfaces import (
    ApprovalProvider,
    ApprovalRequest,
    ApprovalResponse,
    ContextManager,
    HookHandler,
    Orchestrator,
    Provider,
    Tool,
)

PROTOCOLS = [
    Orchestrator,
    Provider,
    Tool,
    ContextManager,
    HookHandler,
    ApprovalProvider,
    ApprovalSystem,
    DisplaySystem,
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_not_runtime_checkable(protocol: Any) -> None:
    """isinstance is refused: shape is checked by the validators, not by the protocol."""
    with pytest.raises(TypeError):
        isinstance(object(), protocol)


@pytest.mark.parametrize(
    ("protocol", "method", "parameters", "is_async"),
    [
        (Orchestrator, "execute", ["prompt", "context", "providers", "tools", "hooks", "kwargs"], True),
        (Provider, "get_info", [], False),
        (Provider, "list_models", [], True),
        (Provider, "complete", ["request", "kwargs"], True),
        (Provider, "parse_tool_calls", ["response"], False),
        (Tool, "execute", ["input"], True),
        (ContextManager, "add_message", ["message"], True),
        (ContextManager, "get_messages_for_request", ["token_budget", "provider"], True),
        (ContextManager, "get_messages", [], True),
        (ContextManager, "set_messages", ["messages"], True),
        (ContextManager, "clear", [], True),
        (HookHandler, "__call__", ["event", "data"], True),
        (ApprovalProvider, "request_approval", ["request"], True),
        (ApprovalSystem, "request_approval", ["prompt", "options", "timeout", "default"], True),
        (DisplaySystem, "show_message", ["message", "level", "source"], False),
    ],
)
def test_methods(protocol: Any, method: str, parameters: list[str], is_async: bool) -> None:
    """Each protocol has the published methods, sync or async, with the published parameters."""
    function = getattr(protocol, method)
    assert list(inspect.signature(function).parameters) == ["self", *parameters]
    assert inspect.iscoroutinefunction(function) is is_async


def test_orchestrator_takes_keywords() -> None:
    """execute() has exactly one **kwargs, so that future arguments break no orchestrator."""
    kinds = [parameter.kind for parameter in inspect.signature(Orchestrator.execute).parameters.values()]
    assert kinds.count(inspect.Parameter.VAR_KEYWORD) == 1


def test_defaults_of_optional_parameters() -> None:
    """What may be left out has its published default."""
    request = inspect.signature(ContextManager.get_messages_for_request).parameters
    assert (request["token_budget"].default, request["provider"].default) == (None, None)
    assert inspect.signature(DisplaySystem.show_message).parameters["source"].default == "hook"


@pytest.mark.parametrize(
    ("protocol", "name"),
    [(Provider, "name"), (Tool, "name"), (Tool, "description"), (Tool, "input_schema")],
)
def test_properties(protocol: Any, name: str) -> None:
    """Names and descriptions are properties of the class."""
    assert isinstance(vars(protocol)[name], property)


async def test_tool_by_inheritance() -> None:
    """A tool that inherits the protocol has an empty input schema until it says otherwise."""

    class Echo(Tool):
        name = "echo"
        description = "says it again"

        async def execute(self, input: dict[str, Any]) -> models.ToolResult:
            return models.ToolResult(output=input)

    assert Echo().input_schema == {}
    assert (await Echo().execute({"a": 1})).output == {"a": 1}


class TestApprovalRequest:
    def test_defaults(self) -> None:
        """Details are empty and the wait is unbounded unless given."""
        request = ApprovalRequest(tool_name="t", action="a", risk_level="high")
        assert request.model_dump() == {
            "tool_name": "t",
            "action": "a",
            "details": {},
            "risk_level": "high",
            "timeout": None,
        }

    @pytest.mark.parametrize("timeout", [0, -1, -0.5, math.nan])
    def test_timeout_must_be_positive(self, timeout: float) -> None:
        """A wait that is not positive is refused with the published text."""
        with pytest.raises(ValidationError, match=r"Timeout must be positive or None \(infinite wait\)"):
            ApprovalRequest(tool_name="t", action="a", risk_level="low", timeout=timeout)

    @pytest.mark.parametrize("timeout", [0.1, 5, math.inf, None])
    def test_good_timeouts(self, timeout: float | None) -> None:
        """Any positive wait, and none, is accepted."""
        assert ApprovalRequest(tool_name="t", action="a", risk_level="low", timeout=timeout).timeout == timeout

    @pytest.mark.parametrize("missing", ["tool_name", "action", "risk_level"])
    def test_required(self, missing: str) -> None:
        """Who, what and how risky must be said."""
        fields = {"tool_name": "t", "action": "a", "risk_level": "low"}
        del fields[missing]
        with pytest.raises(ValidationError):
            ApprovalRequest(**fields)


class TestApprovalResponse:
    def test_defaults(self) -> None:
        """An answer is not remembered and needs no reason, but it must be given."""
        assert ApprovalResponse(approved=False).model_dump() == {"approved": False, "reason": None, "remember": False}
        with pytest.raises(ValidationError):
            ApprovalResponse()  # type: ignore[call-arg]


def test_timeout_error_is_a_plain_exception() -> None:
    """Nobody answering is neither a TimeoutError nor a refusal."""
    assert ApprovalTimeoutError.__bases__ == (Exception,)


@pytest.mark.parametrize("module", [interfaces, approval, display])
def test_public_names(module: Any) -> None:
    """Every public name exists."""
    assert all(hasattr(module, name) for name in module.__all__)


def test_models_of_the_signatures() -> None:
    """The models that the protocols speak of can be imported from here too."""
    for name in ("ChatRequest", "ChatResponse", "ToolCall"):
        assert getattr(interfaces, name) is getattr(message_models, name)
    for name in ("HookResult", "ModelInfo", "ProviderInfo", "ToolResult"):
        assert getattr(interfaces, name) is getattr(models, name)


def test_unknown_name() -> None:
    """A name that does not exist fails as in any module."""
    with pytest.raises(AttributeError, match=r"module 'amplifier_core\.interfaces' has no attribute 'Nothing'"):
        interfaces.Nothing  # noqa: B018


def test_light_modules_do_not_import_pydantic() -> None:
    """Protocols, errors, constants, streamed blocks and helpers cost no pydantic; redaction costs no asyncio."""
    script = """
import sys
import amplifier_core.utils
from amplifier_core.utils import redact_secrets
assert "asyncio" not in sys.modules
import amplifier_core.utils.retry, amplifier_core.llm_errors, amplifier_core.capabilities
import amplifier_core.content_models, amplifier_core.approval, amplifier_core.display, amplifier_core.module_sources
from amplifier_core.interfaces import Tool
assert "pydantic" not in sys.modules
from amplifier_core.interfaces import ApprovalRequest
assert "pydantic" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
