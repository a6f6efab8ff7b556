"""Models: defaults, refusals and dumps that modules rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from amplifier_core.message_models import Usage
from amplifier_core.models import (
    ConfigField,
    ContextInjection,
    HookResult,
    ModelInfo,
    ModuleInfo,
    Pricing,
    ProviderInfo,
    SessionStatus,
    _sanitize_for_llm,
)

HOOK_RESULT_DEFAULTS: dict[str, Any] = {
    "action": "continue",
    "data": None,
    "reason": None,
    "context_injection": None,
    "context_injection_role": "system",
    "ephemeral": False,
    "approval_prompt": None,
    "approval_options": None,
    "approval_timeout": 300.0,
    "approval_default": "deny",
    "suppress_output": False,
    "user_message": None,
    "user_message_level": "info",
    "user_message_source": None,
    "append_to_last_tool_result": False,
    "context_injections": [],
}


class TestHookResult:
    def test_defaults(self) -> None:
        """A bare HookResult lets everything go on, and refuses when nobody answers an approval."""
        assert HookResult().model_dump() == HOOK_RESULT_DEFAULTS

    def test_field_order(self) -> None:
        """Fields keep their published order, the list of injections last."""
        assert list(HookResult.model_fields) == list(HOOK_RESULT_DEFAULTS)

    @pytest.mark.parametrize("action", ["continue", "deny", "modify", "inject_context", "ask_user"])
    def test_known_actions(self, action: Any) -> None:
        """The five actions are accepted."""
        assert HookResult(action=action).action == action

    @pytest.mark.parametrize(
        "fields",
        [
            {"action": "allow"},
            {"action": None},
            {"context_injection_role": "tool"},
            {"approval_default": "ask"},
            {"user_message_level": "debug"},
            {"data": [1]},
            {"data": {1: 2}},
            {"context_injections": None},
            {"context_injections": [{"role": "user"}]},
        ],
    )
    def test_refusals(self, fields: dict[str, Any]) -> None:
        """A value outside a field's type is refused."""
        with pytest.raises(ValidationError):
            HookResult(**fields)

    def test_unknown_keys_are_ignored(self) -> None:
        """A key that no field has is dropped."""
        assert not hasattr(HookResult(surprise=1), "surprise")

    def test_injections_become_models(self) -> None:
        """Dicts in context_injections become ContextInjection objects with their defaults."""
        (item,) = HookResult(context_injections=[{"content": "hi"}]).context_injections
        assert item == ContextInjection(
            content="hi",
            role="system",
            ephemeral=False,
            append_to_last_tool_result=False,
            hook_name="unknown",
            event="",
        )

    def test_results_do_not_share_their_list(self) -> None:
        """Each result has its own list of injections."""
        first, second = HookResult(), HookResult()
        first.context_injections.append(ContextInjection(content="x"))
        assert second.context_injections == []

    def test_data_is_a_copy(self) -> None:
        """The result does not hold the caller's own dict."""
        data = {"a": 1}
        result = HookResult(data=data)
        data["a"] = 2
        assert result.data == {"a": 1}

    def test_json_round_trip(self) -> None:
        """A dumped result is read back as an equal one."""
        result = HookResult(action="inject_context", context_injections=[ContextInjection(content="x", event="e")])
        assert HookResult.model_validate_json(result.model_dump_json()) == result


class TestContextInjection:
    def test_content_is_required(self) -> None:
        """An injection without text is refused."""
        with pytest.raises(ValidationError):
            ContextInjection()  # type: ignore[call-arg]


PRICES = {"input_per_million": 3.0, "output_per_million": 15.0}


class TestPricing:
    def test_defaults(self) -> None:
        """Cache prices are unknown and the currency is the dollar unless said otherwise."""
        assert Pricing(**PRICES).model_dump() == {
            **PRICES,
            "cache_read_per_million": None,
            "cache_write_per_million": None,
            "currency": "USD",
        }

    @pytest.mark.parametrize("code", ["usd", "US", "USDX", "US1", "", " USD", "USD\n", "ÄÖÜ"])
    def test_currency_is_three_capitals(self, code: str) -> None:
        """Anything but three capital letters is refused with the text that names it."""
        with pytest.raises(ValidationError) as caught:
            Pricing(**PRICES, currency=code)
        assert caught.value.errors()[0]["msg"] == (
            f"Value error, currency must be a 3-letter ISO 4217 code, got {code!r}"
        )


class TestMetadata:
    def test_model_info(self) -> None:
        """A model needs id, name and its two limits; the rest is empty."""
        info = ModelInfo(id="m", display_name="M", context_window=10, max_output_tokens=5)
        assert info.model_dump() == {
            "id": "m",
            "display_name": "M",
            "context_window": 10,
            "max_output_tokens": 5,
            "capabilities": [],
            "defaults": {},
            "pricing": None,
        }

    def test_config_field(self) -> None:
        """A config field is a required text question unless said otherwise."""
        field = ConfigField(id="k", display_name="K", prompt="Key?")
        assert field.model_dump() == {
            "id": "k",
            "display_name": "K",
            "field_type": "text",
            "prompt": "Key?",
            "env_var": None,
            "choices": None,
            "required": True,
            "default": None,
            "show_when": None,
            "requires_model": False,
        }

    def test_provider_info(self) -> None:
        """A provider needs id and name; config fields given as dicts become models."""
        info = ProviderInfo(
            id="p",
            display_name="P",
            config_fields=[{"id": "k", "display_name": "K", "prompt": "?", "field_type": "secret"}],
        )
        assert isinstance(info.config_fields[0], ConfigField)
        assert ProviderInfo(id="p", display_name="P").model_dump() == {
            "id": "p",
            "display_name": "P",
            "credential_env_vars": [],
            "capabilities": [],
            "defaults": {},
            "config_fields": [],
        }

    @pytest.mark.parametrize("kind", ["orchestrator", "provider", "tool", "context", "hook", "resolver"])
    def test_module_info(self, kind: Any) -> None:
        """A module is of one of six kinds and may have no config schema."""
        info = ModuleInfo(id="i", name="n", version="1", type=kind, mount_point="tools", description="d")
        assert (info.type, info.config_schema) == (kind, None)

    def test_module_info_of_unknown_kind(self) -> None:
        """A seventh kind is refused."""
        with pytest.raises(ValidationError):
            ModuleInfo(id="i", name="n", version="1", type="agent", mount_point="m", description="d")

    @pytest.mark.parametrize(
        ("model", "required"),
        [
            (ModelInfo, {"id", "display_name", "context_window", "max_output_tokens"}),
            (Pricing, {"input_per_million", "output_per_million"}),
            (ConfigField, {"id", "display_name", "prompt"}),
            (ProviderInfo, {"id", "display_name"}),
            (ModuleInfo, {"id", "name", "version", "type", "mount_point", "description"}),
            (SessionStatus, {"session_id"}),
            (ContextInjection, {"content"}),
            (HookResult, set()),
        ],
    )
    def test_required_fields(self, model: type[BaseModel], required: set[str]) -> None:
        """Exactly the listed fields must be given."""
        assert {name for name, field in model.model_fields.items() if field.is_required()} == required


class TestSessionStatus:
    def test_defaults(self) -> None:
        """A new status is running, counts from zero and does not know its cost."""
        status = SessionStatus(session_id="s")
        assert isinstance(status.started_at, datetime)
        assert status.model_dump(exclude={"started_at"}) == {
            "session_id": "s",
            "ended_at": None,
            "status": "running",
            "total_messages": 0,
            "tool_invocations": 0,
            "tool_successes": 0,
            "tool_failures": 0,
            "total_input_tokens": 0,
            "total_output_tokens": 0,
            "cost_usd": None,
            "last_activity": None,
            "last_error": None,
        }

    def test_to_dict_is_json_without_none(self) -> None:
        """to_dict gives JSON-able values and leaves unknown fields out."""
        status = SessionStatus(session_id="s", cost_usd=Decimal("0"))
        shown = status.to_dict()
        assert json.loads(json.dumps(shown)) == shown
        assert shown["cost_usd"] == "0"
        assert shown["started_at"] == status.started_at.isoformat()
        assert "ended_at" not in shown

    def test_unknown_status(self) -> None:
        """A status outside the four is refused."""
        with pytest.raises(ValidationError):
            SessionStatus(session_id="s", status="paused")


def _status(**fields: Any) -> SessionStatus:
    return SessionStatus(session_id="s", **fields)


def _usage(**fields: Any) -> Usage:
    return Usage(input_tokens=1, output_tokens=2, total_tokens=3, **fields)


@pytest.mark.parametrize("make", [_status, _usage])
class TestCost:
    @pytest.mark.parametrize(("given", "kept"), [("1.50", "1.50"), (2, "2"), (Decimal("0.1"), "0.1"), (0, "0")])
    def test_exact_amounts(self, make: Any, given: Any, kept: str) -> None:
        """Strings, ints and Decimals become Decimal in memory and the same digits in every dump."""
        model = make(cost_usd=given)
        assert isinstance(model.cost_usd, Decimal)
        assert str(model.cost_usd) == kept
        assert model.model_dump()["cost_usd"] == kept
        assert json.loads(model.model_dump_json())["cost_usd"] == kept

    def test_unknown_is_not_zero(self, make: Any) -> None:
        """None stays None, in memory and in dumps."""
        model = make()
        assert model.cost_usd is None
        assert model.model_dump()["cost_usd"] is None
        assert json.loads(model.model_dump_json())["cost_usd"] is None
        assert make(cost_usd=0) != model

    @pytest.mark.parametrize("amount", [1.5, 0.0, float("nan")])
    def test_floats_are_refused(self, make: Any, amount: float) -> None:
        """A float is refused with a text that says so."""
        with pytest.raises(ValueError, match="cost_usd must be Decimal, not float"):
            make(cost_usd=amount)

    def test_floats_in_json_are_refused(self, make: Any) -> None:
        """A JSON number with a fraction is refused too."""
        fields = {**make().model_dump(mode="json"), "cost_usd": 1.5}
        with pytest.raises(ValueError, match="cost_usd must be Decimal, not float"):
            type(make()).model_validate_json(json.dumps(fields))

    @pytest.mark.parametrize("amount", ["", "a lot", "NaN", "Infinity", True, b"1", []])
    def test_nonsense_is_refused(self, make: Any, amount: Any) -> None:
        """What is no finite amount is refused."""
        with pytest.raises(ValidationError):
            make(cost_usd=amount)

    def test_schema_says_string(self, make: Any) -> None:
        """The JSON schema allows a string, and promises one in dumps."""
        model = type(make())
        for mode in ("validation", "serialization"):
            kinds = model.model_json_schema(mode=mode)["properties"]["cost_usd"]["anyOf"]
            assert "string" in {kind["type"] for kind in kinds}

    def test_round_trip(self, make: Any) -> None:
        """A dumped amount is read back to the digit."""
        model = make(cost_usd="0.10")
        assert str(type(model).model_validate(model.model_dump()).cost_usd) == "0.10"


class TestSanitizing:
    def test_every_code_point(self) -> None:
        """Exactly the unprintable control characters and the surrogates are dropped."""
        dropped = {*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000)}
        everything = "".join(map(chr, range(0x11000)))
        kept = "".join(chr(point) for point in range(0x11000) if point not in dropped)
        assert _sanitize_for_llm(everything) == kept


def test_models_do_not_import_the_envelope() -> None:
    """The envelope is imported by the first tool result that has content, not before."""
    script = """
import sys
from amplifier_core.models import HookResult, SessionStatus, ToolResult
HookResult(); SessionStatus(session_id="s"); ToolResult(output=1).model_dump_json()
assert "amplifier_core.message_models" not in sys.modules
ToolResult(content=[{"type": "text", "text": "x"}])
assert "amplifier_core.message_models" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
