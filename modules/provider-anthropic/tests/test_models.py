"""What is known of models by their names."""

from __future__ import annotations

import pytest

from amplifier_module_provider_anthropic.models import abilities_of, model_info


@pytest.mark.parametrize(
    ("model", "window", "output", "adapts", "schema"),
    [
        ("claude-3-haiku-20240307", 200_000, 4096, False, False),
        ("claude-3-5-sonnet-20241022", 200_000, 8192, False, False),
        ("claude-3-7-sonnet-latest", 200_000, 64_000, False, False),
        ("claude-opus-4-20250514", 200_000, 32_000, False, False),
        ("claude-opus-4-1-20250805", 200_000, 32_000, False, True),
        ("claude-opus-4-5", 200_000, 64_000, False, True),
        ("claude-opus-4-6", 1_000_000, 128_000, True, True),
        ("claude-sonnet-4-5-20250929", 200_000, 64_000, False, True),
        ("claude-sonnet-4-6", 1_000_000, 128_000, True, True),
        ("claude-haiku-4-5", 200_000, 64_000, False, True),
        ("claude-haiku-5-5", 1_000_000, 64_000, True, True),
        ("claude-fable-5", 1_000_000, 128_000, True, True),
        ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000, 128_000, True, True),
        ("smollm2", 200_000, 64_000, False, True),
    ],
)
def test_table(model: str, window: int, output: int, adapts: bool, schema: bool) -> None:
    """Families get better with their version; a date is no version."""
    able = abilities_of(model)
    assert (able.context_window, able.max_output, able.adapts, able.takes_schema) == (window, output, adapts, schema)


def test_temperature() -> None:
    """The newest models take none."""
    assert abilities_of("claude-opus-4-6").takes_temperature
    assert not abilities_of("claude-opus-4-7").takes_temperature
    assert not abilities_of("claude-fable-5").takes_temperature


def test_long_context() -> None:
    """A beta gives some models a larger window, and only those."""
    assert model_info("claude-sonnet-4-5", long_context=True).context_window == 1_000_000
    assert model_info("claude-haiku-4-5", long_context=True).context_window == 200_000
    info = model_info("claude-haiku-4-5", display_name="Haiku")
    assert (info.display_name, "fast" in info.capabilities, "thinking" in info.capabilities) == ("Haiku", True, True)
