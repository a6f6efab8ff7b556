"""Errors of model calls."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from amplifier_core import llm_errors
from amplifier_core.llm_errors import InvalidToolCallError, LLMError, RateLimitError

FAMILY: list[type[LLMError]] = [getattr(llm_errors, name) for name in llm_errors.__all__]


@pytest.mark.parametrize("kind", FAMILY)
class TestFamily:
    def test_default_can_be_overridden(self, kind: type[LLMError]) -> None:
        """A provider that knows better says so."""
        assert [kind("m", retryable=choice).retryable for choice in (True, False)] == [True, False]

    def test_attributes(self, kind: type[LLMError]) -> None:
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

    def test_pickle(self, kind: type[LLMError]) -> None:
        """An error crosses a process boundary whole."""
        error = kind("m", provider="p", retryable=not kind("m").retryable, retry_after=2.0)
        restored = pickle.loads(pickle.dumps(error))
        assert repr(restored) == repr(error)
        assert vars(restored) == vars(error)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
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
        (RateLimitError("m", retryable=False), "RateLimitError('m')"),
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
