"""Retrying of model calls."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import utils
from amplifier_core.llm_errors import (
    AuthenticationError,
    ContentFilterError,
    ContextLengthError,
    LLMError,
    ProviderUnavailableError,
    RateLimitError,
)
from amplifier_core.utils.retry import RetryConfig, classify_error_message, compute_delay, retry_with_backoff

STEADY = RetryConfig(jitter=False)


class TestRetryConfig:
    def test_positional_order(self) -> None:
        """Arguments can be given in their published order."""
        config = RetryConfig(1, 2.0, 3.0, 4.0, False, False)
        assert (config.max_retries, config.initial_delay, config.max_delay) == (1, 2.0, 3.0)
        assert (config.backoff_factor, config.jitter, config.honor_retry_after) == (4.0, 0.0, False)

    @pytest.mark.parametrize("name", ["initial_delay", "new"])
    def test_read_only(self, name: str) -> None:
        """No attribute can be set, known or new."""
        with pytest.raises(AttributeError):
            setattr(RetryConfig(), name, 1)

    @pytest.mark.parametrize(("given_jitter", "shown"), [(None, 0.2), (True, 0.2), (False, 0.0)])
    def test_jitter_is_a_switch(self, given_jitter: bool | None, shown: float) -> None:
        """The getter shows 0.2 for on and 0.0 for off."""
        assert RetryConfig(jitter=given_jitter).jitter == shown

    @pytest.mark.parametrize(("number", "shown"), [(0.5, 0.2), (0.2, 0.2), (-1.0, 0.2), (1, 0.2), (0.0, 0.0), (0, 0.0)])
    def test_jitter_as_number(self, number: float, shown: float) -> None:
        """A number is the deprecated form: non-zero is on, whatever its size."""
        with pytest.warns(DeprecationWarning, match="^passing a float for jitter is deprecated, use a bool$") as caught:
            config = RetryConfig(jitter=number)
        assert config.jitter == shown
        assert [warning.filename for warning in caught] == [__file__]

    @pytest.mark.parametrize("nonsense", ["yes", "", []])
    def test_jitter_of_another_type(self, nonsense: Any) -> None:
        """Anything else leaves jitter on, with a warning."""
        with pytest.warns(UserWarning, match="jitter must be a bool") as caught:
            config = RetryConfig(jitter=nonsense)
        assert config.jitter == 0.2
        assert len(caught) == 1

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

    @pytest.mark.parametrize(("old", "new"), [("min_delay", "initial_delay"), ("backoff_multiplier", "backoff_factor")])
    def test_new_name_wins(self, old: str, new: str) -> None:
        """A new name that was set is not overridden, and nothing is warned about."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert getattr(RetryConfig(**{old: 5, new: 7}), new) == 7.0  # type: ignore[arg-type]

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
    @pytest.mark.parametrize(("attempt", "delay"), [(0, 1.0), (1, 2.0), (5, 32.0), (6, 60.0), (2000, 60.0)])
    def test_exponential_up_to_the_bound(self, attempt: int, delay: float) -> None:
        """The delay doubles up to the bound and cannot overflow."""
        assert compute_delay(STEADY, attempt) == delay

    @pytest.mark.parametrize(("multiplier", "delay"), [(2.0, 120.0), (0.5, 30.0), (None, 60.0)])
    def test_multiplier_comes_after_the_bound(self, multiplier: float | None, delay: float) -> None:
        """A multiplier may exceed the bound."""
        assert compute_delay(STEADY, 6, None, multiplier) == delay

    @pytest.mark.parametrize("multiplier", [0.0, -1.0, math.nan, math.inf, -math.inf])
    def test_senseless_multipliers(self, multiplier: float) -> None:
        """A multiplier that is not finite and positive does not count."""
        assert compute_delay(STEADY, 0, None, multiplier) == 1.0

    @pytest.mark.parametrize(("retry_after", "delay"), [(700.0, 700.0), (0.5, 1.0), (-5.0, 1.0), (0, 1.0)])
    def test_retry_after_is_a_floor(self, retry_after: float, delay: float) -> None:
        """The wait is at least what the service asked for, even beyond the bound."""
        assert compute_delay(STEADY, 0, retry_after) == delay

    @pytest.mark.parametrize("retry_after", [math.nan, math.inf])
    def test_retry_after_that_never_ends(self, retry_after: float) -> None:
        """A wait that is no finite time does not count: nobody is made to wait for ever."""
        assert compute_delay(STEADY, 0, retry_after) == 1.0

    def test_retry_after_not_honoured(self) -> None:
        """The service's wish can be ignored."""
        assert compute_delay(RetryConfig(jitter=False, honor_retry_after=False), 0, 50.0) == 1.0

    def test_multiplier_before_retry_after(self) -> None:
        """The multiplied delay and the service's wish are compared, not combined."""
        assert compute_delay(STEADY, 0, 100.0, 2.0) == 100.0
        assert compute_delay(STEADY, 0, 1.5, 2.0) == 2.0

    def test_negative_attempt(self) -> None:
        """Attempts are counted from 0."""
        with pytest.raises(ValueError, match="attempt must be 0 or more, got -1"):
            compute_delay(STEADY, -1)

    @pytest.mark.parametrize(
        "config",
        [
            RetryConfig(initial_delay=-1.0),
            RetryConfig(initial_delay=math.nan, max_delay=math.nan),
            RetryConfig(backoff_factor=-3.0),
            RetryConfig(max_delay=-1.0),
        ],
    )
    def test_senseless_settings_do_not_go_below_zero(self, config: RetryConfig) -> None:
        """Whatever the settings, the wait is never negative and never NaN."""
        assert all(compute_delay(config, attempt) >= 0.0 for attempt in range(5))

    def test_no_initial_delay(self) -> None:
        """Nothing doubled is nothing, at any attempt."""
        assert compute_delay(RetryConfig(initial_delay=0), 5000) == 0.0

    def test_jitter_uses_its_whole_range(self) -> None:
        """Delays are spread from half to one and a half, and not less widely."""
        delays = [compute_delay(RetryConfig(jitter=True), 0) for _ in range(2000)]
        assert 0.5 <= min(delays) < 0.6
        assert 1.4 < max(delays) < 1.5

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
    async def test_success_at_once(self, slept: list[float]) -> None:
        """A call that succeeds is made once."""
        service = Service()
        assert await retry_with_backoff(service) == "answer"
        assert (service.calls, slept) == (1, [])

    async def test_retries_until_success(self, slept: list[float]) -> None:
        """Retryable errors are waited out with growing delays, each announced before the wait."""
        first, second = RateLimitError("1"), ProviderUnavailableError("2")
        seen: list[tuple[int, float, LLMError, int]] = []

        async def on_retry(attempt: int, delay: float, error: LLMError) -> None:
            seen.append((attempt, delay, error, len(slept)))

        assert await retry_with_backoff(Service(first, second), STEADY, on_retry=on_retry) == "answer"
        assert slept == [1.0, 2.0]
        assert seen == [(1, 1.0, first, 0), (2, 2.0, second, 1)]

    @pytest.mark.parametrize(
        "error",
        [AuthenticationError("x"), RateLimitError("x", retryable=False), ValueError("x"), asyncio.CancelledError()],
    )
    async def test_raised_at_once(self, slept: list[float], error: BaseException) -> None:
        """Errors that are not the service's, or that a retry cannot help, and cancellation come through at once."""
        service = Service(error)
        with pytest.raises(type(error)) as caught:
            await retry_with_backoff(service, STEADY)
        assert caught.value is error
        assert (service.calls, slept) == (1, [])

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


class TestClassify:
    @pytest.mark.parametrize(
        ("message", "kind"),
        [
            ("the context length is 8k", ContextLengthError),
            ("maximum context exceeded", ContextLengthError),
            ("safety system", ContentFilterError),
            ("request blocked", ContentFilterError),
            ("", LLMError),
        ],
    )
    def test_by_words(self, message: str, kind: type[LLMError]) -> None:
        """Without a telling status the words decide, in any case."""
        assert classify_error_message(message) is kind
        assert classify_error_message(message.upper(), provider="p") is kind

    @pytest.mark.parametrize(
        ("message", "status", "kind"),
        [
            ("context length", 429, RateLimitError),
            ("context length", 400, ContextLengthError),
            ("blocked", 422, ContentFilterError),
            ("rate limit on context length", None, ContextLengthError),
            ("api key not found", None, AuthenticationError),
        ],
    )
    def test_precedence(self, message: str, status: int | None, kind: type[LLMError]) -> None:
        """Telling statuses come first, then the words in order, then 400 and 422."""
        assert classify_error_message(message, status_code=status) is kind


def test_names_of_the_package() -> None:
    """The package offers the same objects under its own name, and no others."""
    assert utils.RetryConfig is RetryConfig
    assert utils.retry_with_backoff is retry_with_backoff
    assert utils.classify_error_message is classify_error_message
    assert set(utils.__all__) <= set(dir(utils))
    with pytest.raises(AttributeError, match=r"module 'amplifier_core\.utils' has no attribute 'nothing'"):
        utils.nothing  # noqa: B018
