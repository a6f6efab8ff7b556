"""Retrying of model calls."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import utils
from amplifier_core.llm_errors import (
    LLMError,
    RateLimitError,
)
from amplifier_core.utils.retry import RetryConfig, classify_error_message, compute_delay, retry_with_backoff

STEADY = RetryConfig(jitter=False)


class TestRetryConfig:
    @pytest.mark.parametrize(
        ("old", "new", "default"), [("min_delay", "initial_delay", 1.0), ("backoff_multiplier", "backoff_factor", 2.0)]
    )
    def test_old_names(self, old: str, new: str, default: float) -> None:
        """An old name stands in for the new one at its default, with one warning per use, also on reading."""
        message = f"^{old} is deprecated, use {new}$"
        with pytest.warns(DeprecationWarning, match=message) as caught:
            config = RetryConfig(**{old: 5})  # type: ignore[arg-type]
        assert getattr(config, new) == 5.0
        assert [warning.filename for warning in caught] == [__file__]
        with pytest.warns(DeprecationWarning, match=message) as caught:
            assert getattr(config, old) == 5.0
        assert [warning.filename for warning in caught] == [__file__]
        with pytest.warns(DeprecationWarning, match=message):
            assert getattr(RetryConfig(**{old: 5, new: default}), new) == 5.0  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"max_retries": -1}, ValueError, "RetryConfig: max_retries must be 0 or more, got -1; 0 means no retry"),
            ({"max_retries": 1.5}, TypeError, "RetryConfig: max_retries must be an int, got float"),
            ({"max_retries": None}, TypeError, "RetryConfig: max_retries must be an int, got NoneType"),
            ({"initial_delay": "1"}, TypeError, "RetryConfig: initial_delay must be a number, got str"),
            ({"max_delay": None}, TypeError, "RetryConfig: max_delay must be a number, got NoneType"),
            ({"backoff_factor": []}, TypeError, "RetryConfig: backoff_factor must be a number, got list"),
            ({"honor_retry_after": 1}, TypeError, "RetryConfig: honor_retry_after must be a bool, got int"),
        ],
    )
    def test_refusals(self, fields: dict[str, Any], error: type[Exception], message: str) -> None:
        """A setting of the wrong type is refused by name."""
        with pytest.raises(error) as caught:
            RetryConfig(**fields)
        assert str(caught.value) == message

    def test_copies(self) -> None:
        """A config can be copied and sent to another process."""
        config = RetryConfig(max_retries=7, jitter=False)
        assert repr(copy.copy(config)) == repr(pickle.loads(pickle.dumps(config))) == repr(config)
        assert "max_retries=7" in repr(config)


class TestComputeDelay:
    def test_negative_attempt(self) -> None:
        """Attempts are counted from 0."""
        with pytest.raises(ValueError, match="attempt must be 0 or more, got -1"):
            compute_delay(STEADY, -1)

    @given(
        initial=st.floats(0, 100),
        bound=st.floats(0, 1000),
        factor=st.floats(0, 10),
        attempt=st.integers(0, 5000),
        retry_after=st.none() | st.floats(0, 1000),
        multiplier=st.none() | st.floats(),
        honor=st.booleans(),
    )
    def test_bounds(
        self,
        initial: float,
        bound: float,
        factor: float,
        attempt: int,
        retry_after: float | None,
        multiplier: float | None,
        honor: bool,
    ) -> None:
        """Jitter spreads the steady delay over half to one and a half of it, and the steady one obeys its bounds."""
        settings_of = {
            "initial_delay": initial,
            "max_delay": bound,
            "backoff_factor": factor,
            "honor_retry_after": honor,
        }
        steady = compute_delay(RetryConfig(jitter=False, **settings_of), attempt, retry_after, multiplier)  # type: ignore[arg-type]
        spread = compute_delay(RetryConfig(jitter=True, **settings_of), attempt, retry_after, multiplier)  # type: ignore[arg-type]
        usable = multiplier if multiplier is not None and math.isfinite(multiplier) and multiplier > 0 else 1.0
        floor = retry_after if retry_after is not None and honor else 0.0
        assert floor <= steady <= max(bound * usable, floor)
        assert steady * 0.5 <= spread <= steady * 1.5


class Service:
    """Fail with the given errors, one per call, then answer."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record waits instead of waiting."""
    waits: list[float] = []

    async def sleep(delay: float) -> None:
        waits.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return waits


class TestRetryWithBackoff:
    async def test_failing_callback(self, slept: list[float]) -> None:
        """An error of on_retry itself is not swallowed."""

        async def on_retry(attempt: int, delay: float, error: LLMError) -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError):
            await retry_with_backoff(Service(RateLimitError("x")), STEADY, on_retry=on_retry)

    async def test_default_config(self, slept: list[float]) -> None:
        """Without config the defaults hold, jitter included."""
        assert await retry_with_backoff(Service(RateLimitError("x"))) == "answer"
        assert 0.5 <= slept[0] < 1.5

    async def test_cancelled_while_waiting(self) -> None:
        """Cancelling a waiting retry ends it."""
        started = asyncio.Event()

        async def on_retry(attempt: int, delay: float, error: LLMError) -> None:
            started.set()

        patient = RetryConfig(initial_delay=3600, max_delay=3600, jitter=False)
        task = asyncio.create_task(retry_with_backoff(Service(RateLimitError("x")), patient, on_retry=on_retry))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_names_of_the_package() -> None:
    """The package offers the same objects under its own name, and no others."""
    assert utils.RetryConfig is RetryConfig
    assert utils.retry_with_backoff is retry_with_backoff
    assert utils.classify_error_message is classify_error_message
    assert set(utils.__all__) <= set(dir(utils))
    with pytest.raises(AttributeError, match=r"module 'amplifier_core\.utils' has no attribute 'nothing'"):
        utils.nothing  # noqa: B018
