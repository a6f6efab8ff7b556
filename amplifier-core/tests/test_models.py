"""Models: defaults, refusals and dumps that modules rely on."""

from __future__ import annotations

import json
import subprocess
import sys
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


class TestHookResult:
    @pytest.mark.parametrize(
        "fields",
        [
            {"action": None},
            {"data": {1: 2}},
            {"context_injections": None},
        ],
    )
    def test_refusals(self, fields: dict[str, Any]) -> None:
        """A value outside a field's type is refused."""
        with pytest.raises(ValidationError):
            HookResult(**fields)

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


PRICES = {"input_per_million": 3.0, "output_per_million": 15.0}


class TestPricing:
    @pytest.mark.parametrize("code", ["usd", "US", "USDX", "US1", "", " USD", "USD\n", "ÄÖÜ"])
    def test_currency_is_three_capitals(self, code: str) -> None:
        """Anything but three capital letters is refused with the text that names it."""
        with pytest.raises(ValidationError) as caught:
            Pricing(**PRICES, currency=code)
        assert caught.value.errors()[0]["msg"] == (
            f"Value error, currency must be a 3-letter ISO 4217 code, got {code!r}"
        )


class TestMetadata:
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
