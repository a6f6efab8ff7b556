"""Where the budget of a request comes from."""

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModelInfo, ProviderInfo
from amplifier_kit.config import read_config
from amplifier_kit.engine.context.token_budget import ContextConfig, request_budget

MODEL = ModelInfo(id="m", display_name="M", context_window=200_000, max_output_tokens=64_000)
INFO = ProviderInfo(id="p", display_name="P", defaults={"context_window": 100_000, "max_output_tokens": 8_000})


def provider(**methods: Any) -> Any:
    return SimpleNamespace(name="scripted", **methods)


async def budget(token_budget: int | None = None, source: Any = None, **config: Any) -> int:
    return await request_budget(token_budget, source, read_config(ContextConfig, config, module="context-simple"))


async def test_the_caller_comes_first() -> None:
    """An explicit budget counts, whatever the provider and the cap say."""
    assert await budget(1234, provider(get_model_info=lambda: MODEL), max_tokens=500) == 1234


async def test_the_model_comes_second() -> None:
    """The window, less half of the longest answer and a margin of 4096."""
    source = provider(get_model_info=lambda: MODEL, get_info=lambda: INFO)
    assert await budget(source=source) == 200_000 - 32_000 - 4096
    assert await budget(source=source, output_reserve_fraction=1) == 200_000 - 64_000 - 4096


async def test_the_providers_defaults_come_third() -> None:
    """A provider without model info is asked for its defaults, and the same is subtracted."""
    assert await budget(source=provider(get_info=lambda: INFO)) == 100_000 - 4_000 - 4096


async def test_an_async_provider_is_awaited() -> None:
    """Both questions may be answered by coroutines."""

    async def model() -> ModelInfo:
        return MODEL

    assert await budget(source=provider(get_model_info=model)) == 163_904


async def test_the_cap_is_a_cap() -> None:
    """`max_tokens` lowers the model's budget and never raises it."""
    source = provider(get_model_info=lambda: MODEL)
    assert await budget(source=source, max_tokens=50_000) == 50_000
    assert await budget(source=source, max_tokens=1_000_000) == 163_904


@pytest.mark.parametrize(
    "source", [None, SimpleNamespace(), provider(get_info=lambda: ProviderInfo(id="p", display_name="P"))]
)
async def test_without_a_model_the_config_decides(source: Any) -> None:
    """For an unknown model `max_tokens` counts, else the fallback."""
    assert await budget(source=source) == 200_000
    assert await budget(source=source, max_tokens_fallback=9000) == 9000
    assert await budget(source=source, max_tokens=300_000, max_tokens_fallback=9000) == 300_000


async def test_a_small_window_keeps_an_eighth() -> None:
    """The margins of large models do not eat up a small one."""
    small = ModelInfo(id="s", display_name="S", context_window=4096, max_output_tokens=4096)
    assert await budget(source=provider(get_model_info=lambda: small)) == 512


@pytest.mark.parametrize(("overhead", "expected"), [(700, 4096 - 2048 - 700), (0, 512), ("x", 512), (9999, 512)])
async def test_a_provider_knows_what_it_adds(overhead: Any, expected: int) -> None:
    """A provider that sends less than a whole session's tools says how much, and the rest is for the conversation."""
    defaults = {"request_overhead": overhead}
    lean = ModelInfo(id="s", display_name="S", context_window=4096, max_output_tokens=4096, defaults=defaults)
    assert await budget(source=provider(get_model_info=lambda: lean)) == expected


async def test_a_failing_provider_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """An exception is logged with the provider's name, and the next source is asked."""

    def fail() -> None:
        raise RuntimeError("no network")

    assert await budget(source=provider(get_model_info=fail, get_info=lambda: INFO)) == 91_904
    [record] = caplog.records
    assert "scripted: get_model_info() failed" in record.getMessage()
    assert "no network" in record.getMessage()


@pytest.mark.parametrize("window", [0, -1, None, "200k", True])
async def test_nonsense_of_a_provider_is_ignored(window: Any) -> None:
    """A window that is no positive number is no answer."""
    said = {"context_window": window, "max_output_tokens": 10}
    assert await budget(source=provider(get_model_info=lambda: said)) == 200_000
