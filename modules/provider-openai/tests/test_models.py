"""What is known of models by their names."""

from __future__ import annotations

import pytest

from amplifier_kit.llm.responses.models import abilities_of, describe


@pytest.mark.parametrize(
    ("model", "window", "output", "efforts"),
    [
        ("gpt-3.5-turbo", 16_385, 4096, ""),
        ("gpt-4", 8192, 8192, ""),
        ("gpt-4-turbo", 128_000, 4096, ""),
        ("gpt-4o-mini", 128_000, 16_384, ""),
        ("gpt-4.1-nano", 1_047_576, 32_768, ""),
        ("gpt-4.5-preview", 128_000, 16_384, ""),
        ("gpt-5-chat-latest", 128_000, 16_384, ""),
        ("gpt-5", 400_000, 128_000, "minimal low medium high"),
        ("gpt-5-pro", 400_000, 272_000, "high"),
        ("gpt-5-codex", 400_000, 128_000, "low medium high"),
        ("gpt-5.1", 400_000, 128_000, "none low medium high"),
        ("gpt-5.1-codex-max", 400_000, 128_000, "low medium high xhigh"),
        ("gpt-5.2-pro", 400_000, 128_000, "medium high xhigh"),
        ("gpt-5.5-2026-04-23", 400_000, 128_000, "none low medium high xhigh"),
        ("gpt-6-sol", 400_000, 128_000, "none low medium high xhigh max"),
        ("o3", 200_000, 100_000, "low medium high"),
        ("o4-mini-2025-04-16", 200_000, 100_000, "low medium high"),
        ("codex-mini-latest", 200_000, 100_000, "low medium high"),
        ("openai/gpt-oss-20b", 131_072, 32_768, "low medium high"),
        ("o4-mini-deep-research", 200_000, 100_000, "medium"),
        ("smollm2", 128_000, 16_384, ""),
        ("foo3", 128_000, 16_384, ""),
    ],
)
def test_table(model: str, window: int, output: int, efforts: str) -> None:
    """Families get better with their version; a date is no version."""
    able = abilities_of(model)
    assert (able.context_window, able.max_output, " ".join(able.efforts)) == (window, output, efforts)


def test_long_context() -> None:
    """The larger window, whose tokens cost more, is used only when that is wanted."""
    able = abilities_of("gpt-5.5")
    assert describe("gpt-5.5", able).context_window == 400_000
    long = describe("gpt-5.5", able, long_context=True)
    assert (long.context_window, "long_context" in long.capabilities) == (1_050_000, True)
    assert describe("m", abilities_of("gpt-5.4-mini"), long_context=True).context_window == 400_000


def test_capabilities() -> None:
    """What a model can do is told by the published names."""
    assert set(describe("gpt-5.4-mini", abilities_of("gpt-5.4-mini")).capabilities) == {
        "tools",
        "streaming",
        "vision",
        "thinking",
        "json_mode",
        "fast",
    }
    research = describe("o3-deep-research", abilities_of("o3-deep-research")).capabilities
    assert "deep_research" in research
    assert "tools" not in research


def test_unknown_names() -> None:
    """A name that says nothing is known to say nothing."""
    assert not abilities_of("my-deployment").is_known
    assert abilities_of("my-gpt-5.4-deployment").thinks
