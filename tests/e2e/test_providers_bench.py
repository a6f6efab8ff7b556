"""The measurement of the providers delivers rows, and notices what it is there to notice."""

import asyncio
from collections.abc import Callable
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]


@pytest.mark.system
def test_every_provider_is_measured_beside_its_sdk(load: Load) -> None:
    """Each provider has the times of its tokens and streams at once; what has a target has a verdict."""
    providers = load("providers")
    rows = providers.measure(tokens=5, rounds=1, streams=3)
    names = [service.name for service in providers.SERVICES]
    assert [row["what"].partition(",")[0] for row in rows if "each token" in row["what"]] == [
        name for name in names for _ in range(2)
    ]
    assert [row["value"] for row in rows if "streams at once" in row["what"]] == [3] * len(names)
    assert rows[-1] == {
        "what": "SDKs imported before the first call",
        "value": 0,
        "unit": "packages",
        "target": "≤ 0 packages",
        "met": True,
    }


def test_a_stream_that_loses_tokens_is_no_result(load: Load) -> None:
    """What did not come whole was not fast."""
    providers = load("providers")
    watch = providers.Stopwatch(3)

    async def stream() -> None:
        watch.take(providers.TOKEN)

    with pytest.raises(RuntimeError, match="1 of 3 tokens"):
        asyncio.run(watch.run(stream))


def test_targets(load: Load) -> None:
    """A target is the most or the least that is allowed; what is only told is never missed."""
    row = load("providers").row
    assert [row("x", value, "µs", 20.0)["met"] for value in (20.0, 20.1)] == [True, False]
    assert [row("x", value, "streams", 200, least=True)["met"] for value in (200, 199)] == [True, False]
    assert row("x", 99.0, "µs", None) == {"what": "x", "value": 99.0, "unit": "µs", "target": None, "met": True}
