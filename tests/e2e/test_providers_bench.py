"""The measurement of the providers delivers rows, and notices what it is there to notice."""

import asyncio
from collections.abc import Callable
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


@pytest.mark.system
def test_every_provider_is_measured_beside_its_sdk(load: Load) -> None:
    """Each provider has the times of its tokens and streams at once; what has a target has a verdict."""
    providers, harness = load("providers"), load("harness")
    rows = providers.measure(harness.Setting(rounds=1, size=3))
    names = [service.name for service in providers.SERVICES]
    assert [row.what.partition(",")[0] for row in rows if "each token" in row.what] == names
    assert [row.value for row in rows if "streams at once" in row.what] == [3] * len(names)
    assert all(row.target for row in rows)


def test_a_stream_that_loses_tokens_is_no_result(load: Load) -> None:
    """What did not come whole was not fast."""
    providers = load("providers")
    watch = providers.Stopwatch(3)

    async def stream() -> None:
        watch.take(providers.TOKEN)

    with pytest.raises(RuntimeError, match="1 of 3 tokens"):
        asyncio.run(watch.run(stream))
