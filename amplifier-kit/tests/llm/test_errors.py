"""What becomes of exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import llm_errors
from amplifier_kit.llm.errors import ANTHROPIC, GEMINI, OLLAMA, OPENAI, Endpoint, Wire, to_llm_error


class StatusError(Exception):
    """Look like the error of an SDK."""

    def __init__(self, status: int | None, body: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(str(body))
        self.status_code = status
        self.body = body
        self.response = type("Response", (), {"headers": headers or {}})()


def _body(kind: str = "", message: str = "no") -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def _error(wire: Wire, status: int | None, body: Any, **fields: Any) -> llm_errors.LLMError:
    return to_llm_error(StatusError(status, body), Endpoint("p", wire, **fields), "m")


@pytest.mark.parametrize(
    ("wire", "status", "kind", "message", "name"),
    [
        (ANTHROPIC, 400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "ContextLengthError"),
        (ANTHROPIC, 400, "invalid_request_error", "messages.0: empty", "InvalidRequestError"),
        (ANTHROPIC, 400, "invalid_request_error", "Your credit balance is too low", "QuotaExceededError"),
        (ANTHROPIC, 401, "authentication_error", "invalid x-api-key", "AuthenticationError"),
        (ANTHROPIC, 403, "permission_error", "no", "AccessDeniedError"),
        (ANTHROPIC, 404, "not_found_error", "model: x", "NotFoundError"),
        (ANTHROPIC, 413, "request_too_large", "no", "ContextLengthError"),
        (ANTHROPIC, 429, "rate_limit_error", "no", "RateLimitError"),
        (ANTHROPIC, 500, "api_error", "no", "ProviderUnavailableError"),
        (ANTHROPIC, 529, "overloaded_error", "no", "ProviderUnavailableError"),
        (ANTHROPIC, None, "overloaded_error", "no", "ProviderUnavailableError"),
        (OPENAI, 400, "context_length_exceeded", "no", "ContextLengthError"),
        (OPENAI, 400, "exceed_context_size_error", "no", "ContextLengthError"),
        (OPENAI, 400, "content_filter", "no", "ContentFilterError"),
        (OPENAI, 400, "", "omitted by our content management policy", "ContentFilterError"),
        (OPENAI, 429, "insufficient_quota", "no", "QuotaExceededError"),
        (OPENAI, 429, "rate_limit_exceeded", "no", "RateLimitError"),
        (OPENAI, 429, "tokens", "Request too large for the context window", "RateLimitError"),
        (OPENAI, 404, "model_not_found", "no", "NotFoundError"),
        (OPENAI, 422, "", "no", "InvalidRequestError"),
        (OPENAI, 408, "", "no", "LLMTimeoutError"),
        (OPENAI, 425, "", "no", "ProviderUnavailableError"),
        (OPENAI, 402, "", "no", "QuotaExceededError"),
        (OPENAI, 418, "", "no", "InvalidRequestError"),
        (OPENAI, 307, "", "no", "ConfigurationError"),
        (OPENAI, 599, "", "no", "ProviderUnavailableError"),
        (GEMINI, 400, "", "API key not valid. Please pass a valid API key.", "AuthenticationError"),
        (GEMINI, 400, "", "The input token count exceeds the maximum", "ContextLengthError"),
        (GEMINI, 429, "resource_exhausted", "You exceeded your current quota", "QuotaExceededError"),
        (GEMINI, 503, "unavailable", "no", "ProviderUnavailableError"),
        (OLLAMA, 404, "", "model 'x' not found", "NotFoundError"),
        (OLLAMA, None, "", "no", "LLMError"),
    ],
)
def test_table(wire: Wire, status: int | None, kind: str, message: str, name: str) -> None:
    """A service's word, its status and its wording lead to the error that they mean."""
    error = _error(wire, status, _body(kind, message))
    assert type(error).__name__ == name
    assert message.rstrip(".") in str(error)
    assert (error.provider, error.model, error.status_code) == ("p", "m", status)


def test_context_overflow_is_not_retryable() -> None:
    """A request that is too long stays too long."""
    assert _error(ANTHROPIC, 400, _body(message="prompt is too long")).retryable is False


def test_pages_of_gateways() -> None:
    """A gateway's page for 403 passes, and a page for 404 means a wrong address."""
    page = "<!DOCTYPE html><html>Just a moment</html>"
    blocked = _error(ANTHROPIC, 403, page)
    assert type(blocked) is llm_errors.ProviderUnavailableError
    assert blocked.retryable
    assert type(_error(OPENAI, 404, page)) is llm_errors.NotFoundError


def test_overloaded_waits_longer() -> None:
    """Overload multiplies the wait, other failures of the service do not."""
    assert _error(ANTHROPIC, 529, _body(), overloaded_multiplier=10.0).delay_multiplier == 10.0
    assert _error(ANTHROPIC, None, _body("overloaded_error"), overloaded_multiplier=10.0).delay_multiplier == 10.0
    assert _error(ANTHROPIC, 500, _body(), overloaded_multiplier=10.0).delay_multiplier == 1.0


def test_retry_after_is_kept() -> None:
    """The wait that a service asks for is on the error."""
    raised = StatusError(429, _body(), {"Retry-After": "7"})
    assert to_llm_error(raised, Endpoint("p", OPENAI), "m").retry_after == 7.0


def test_one_line_with_the_remedy() -> None:
    """Wrong keys, models and addresses say what to do, on one line."""
    facts = {"base_url": "http://x", "key_name": "X_API_KEY"}
    texts = {status: str(_error(OPENAI, status, _body(message="no\nno"), **facts)) for status in (401, 403, 404)}
    assert "X_API_KEY" in texts[401]
    assert "amplifier provider test p" in texts[401]
    assert "permissions" in texts[403]
    assert "'m'" in texts[404]
    assert "http://x" in texts[404]
    assert not any("\n" in text for text in texts.values())


def test_the_remedy_names_what_there_is() -> None:
    """The remedy is for the provider by its name in the session, and for the setting that it really has."""
    there = Endpoint("p", OPENAI, base_url="http://there", url_name="host", mounted_as=lambda: "work")
    line = str(to_llm_error(StatusError(404, {"error": {"message": "no such model"}}), there, "m"))
    assert line.startswith("p: 404 no such model. ")
    assert "Check the model 'm' and host at http://there; `amplifier provider models work` lists" in line


def test_secrets_are_scrubbed() -> None:
    """What a service quotes of a key does not reach the error."""
    error = _error(OPENAI, 401, _body(message="bad key SECRET"), scrub=lambda text: text.replace("SECRET", "***"))
    assert "SECRET" not in str(error)
    assert "***" in str(error)


def test_faults_of_the_program() -> None:
    """What comes neither from a service nor from a connection is not tried again."""
    error = to_llm_error(KeyError("x"), Endpoint("p", OPENAI), "m")
    assert type(error) is llm_errors.LLMError
    assert not error.retryable
    assert "KeyError" in str(error)


def test_model_errors_stay_what_they_are() -> None:
    """A model error is returned itself, with the provider and the model filled in."""
    given = llm_errors.StreamError("cut", provider="other")
    assert to_llm_error(given, Endpoint("p", OPENAI), "m") is given
    assert (given.provider, given.model) == ("other", "m")
