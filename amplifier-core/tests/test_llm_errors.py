"""Errors of model calls."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from amplifier_core import llm_errors
from amplifier_core.llm_errors import (
    AbortError,
    AccessDeniedError,
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    InvalidToolCallError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    NotFoundError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)

FAMILY = [
    (LLMError, Exception, False),
    (RateLimitError, LLMError, True),
    (AuthenticationError, LLMError, False),
    (ContextLengthError, LLMError, False),
    (ContentFilterError, LLMError, False),
    (InvalidRequestError, LLMError, False),
    (NotFoundError, LLMError, False),
    (AbortError, LLMError, False),
    (ConfigurationError, LLMError, False),
    (ProviderUnavailableError, LLMError, True),
    (LLMTimeoutError, LLMError, True),
    (StreamError, LLMError, True),
    (InvalidToolCallError, LLMError, False),
    (AccessDeniedError, AuthenticationError, False),
    (NetworkError, ProviderUnavailableError, True),
    (QuotaExceededError, RateLimitError, False),
]


@pytest.mark.parametrize(("kind", "base", "retryable"), FAMILY)
class TestFamily:
    def test_base_and_default(self, kind: type[LLMError], base: type, retryable: bool) -> None:
        """Each class has its published base and says by default whether a retry can help."""
        error = kind("m")
        assert kind.__bases__ == (base,)
        assert error.retryable is retryable
        assert (error.provider, error.model, error.status_code, error.retry_after) == (None, None, None, None)
        assert error.delay_multiplier == 1.0

    def test_default_can_be_overridden(self, kind: type[LLMError], base: type, retryable: bool) -> None:
        """A provider that knows better says so."""
        assert kind("m", retryable=not retryable).retryable is not retryable

    def test_attributes(self, kind: type[LLMError], base: type, retryable: bool) -> None:
        """Every class takes and keeps all facts."""
        facts: dict[str, Any] = {
            "provider": "p",
            "model": "m",
            "status_code": 429,
            "retryable": True,
            "retry_after": 1.5,
            "delay_multiplier": 2.0,
        }
        error = kind("message", **facts)
        assert {name: getattr(error, name) for name in facts} == facts
        assert (str(error), error.args) == ("message", ("message",))

    def test_pickle(self, kind: type[LLMError], base: type, retryable: bool) -> None:
        """An error crosses a process boundary whole."""
        error = kind("m", provider="p", retryable=not retryable, retry_after=2.0)
        restored = pickle.loads(pickle.dumps(error))
        assert repr(restored) == repr(error)
        assert vars(restored) == vars(error)

    def test_facts_are_keywords(self, kind: type[LLMError], base: type, retryable: bool) -> None:
        """Only the message is positional."""
        with pytest.raises(TypeError):
            kind("m", "p")  # type: ignore[call-arg]


def test_family_is_complete() -> None:
    """The module exports these sixteen classes and nothing else."""
    assert {kind.__name__ for kind, _, _ in FAMILY} == set(llm_errors.__all__)
    assert len(FAMILY) == 16


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (LLMError("msg"), "LLMError('msg')"),
        (LLMError("it's"), 'LLMError("it\'s")'),
        (
            LLMError(
                "msg", provider="p", model="m", status_code=429, retryable=True, retry_after=1.5, delay_multiplier=2.0
            ),
            (
                "LLMError('msg', provider='p', model='m', status_code=429, retryable=True, retry_after=1.5, "
                "delay_multiplier=2.0)"
            ),
        ),
        (
            LLMError("m", provider="", model="", status_code=0, retry_after=0),
            "LLMError('m', provider='', model='', status_code=0, retry_after=0)",
        ),
        (LLMError("m", delay_multiplier=1), "LLMError('m')"),
        (LLMError("m", delay_multiplier=0.5), "LLMError('m', delay_multiplier=0.5)"),
        (RateLimitError("m"), "RateLimitError('m', retryable=True)"),
        (RateLimitError("m", retryable=False), "RateLimitError('m')"),
        (QuotaExceededError("m"), "QuotaExceededError('m')"),
        (InvalidToolCallError("m", tool_name="t", raw_arguments="{"), "InvalidToolCallError('m')"),
    ],
)
def test_repr(error: LLMError, shown: str) -> None:
    """repr names the class, the message and only what is not at its plain default."""
    assert repr(error) == shown


def test_invalid_tool_call() -> None:
    """A tool call that cannot be understood keeps what the model wrote."""
    error = InvalidToolCallError("m", tool_name="t", raw_arguments="{oops")
    assert (error.tool_name, error.raw_arguments) == ("t", "{oops")
    assert (InvalidToolCallError("m").tool_name, InvalidToolCallError("m").raw_arguments) == (None, None)
