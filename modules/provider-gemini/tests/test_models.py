"""What is known of models by their names."""

from __future__ import annotations

import pytest

from amplifier_module_provider_gemini.models import abilities_of, model_info


@pytest.mark.parametrize(
    ("model", "window", "output", "thinks", "levels"),
    [
        ("gemini-1.5-pro", 2_097_152, 8192, False, False),
        ("gemini-2.0-flash-001", 1_048_576, 8192, False, False),
        ("gemini-2.5-flash", 1_048_576, 65_536, True, False),
        ("models/gemini-2.5-pro", 1_048_576, 65_536, True, False),
        ("gemini-2.5-flash-image", 1_048_576, 32_768, False, False),
        ("gemini-flash-latest", 1_048_576, 65_536, True, False),
        ("gemini-3-pro-preview", 1_048_576, 65_536, True, True),
        ("gemini-3.8-flash", 1_048_576, 65_536, True, True),
        ("gemini-10-flash", 1_048_576, 65_536, True, True),
        ("gemma-3-27b-it", 32_768, 8192, False, False),
    ],
)
def test_table(model: str, window: int, output: int, thinks: bool, levels: bool) -> None:
    """Models get better with their version."""
    able = abilities_of(model)
    assert (able.context_window, able.max_output, able.thinks, able.has_levels) == (window, output, thinks, levels)


def test_description() -> None:
    """What a model can do is told, and limits that are given win."""
    info = model_info("gemini-2.5-flash", display_name="Flash", window=7)
    assert (info.display_name, info.context_window, info.max_output_tokens) == ("Flash", 7, 65_536)
    assert {"tools", "thinking", "vision", "fast", "json_mode"} <= set(info.capabilities)
    assert "long_context" not in info.capabilities
    assert "long_context" in model_info("gemini-2.5-pro").capabilities
    assert "tools" not in model_info("gemini-2.5-flash-image").capabilities
