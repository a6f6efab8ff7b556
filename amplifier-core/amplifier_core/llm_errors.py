"""What can go wrong when a provider talks to a model, as one family of exceptions.

Every class says by default whether trying again can help; a provider overrides that per error with `retryable=`.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AbortError",
    "AccessDeniedError",
    "AuthenticationError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextLengthError",
    "InvalidRequestError",
    "InvalidToolCallError",
    "LLMError",
    "LLMTimeoutError",
    "NetworkError",
    "NotFoundError",
    "ProviderUnavailableError",
    "QuotaExceededError",
    "RateLimitError",
    "StreamError",
]


class LLMError(Exception):
    """Report a failed model call, and what a retry loop needs to know about it.

    Args:
        message: What happened, in words.
        provider: Name of the provider that failed.
        model: Model that was asked.
        status_code: HTTP status, where there was one.
        retryable: Whether the same call may succeed later; None takes the default of the class.
        retry_after: Seconds the service asked to wait.
        delay_multiplier: Factor on the computed back-off for this error.
    """

    retryable_by_default: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        delay_multiplier: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retryable: bool = self.retryable_by_default if retryable is None else retryable
        self.retry_after = retry_after
        self.delay_multiplier = delay_multiplier

    def __repr__(self) -> str:
        """Name the class, the message and every attribute that is not at its plain default."""
        parts = [repr(str(self))]
        for name in ("provider", "model", "status_code"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={value!r}")
        if self.retryable:
            parts.append("retryable=True")
        if self.retry_after is not None:
            parts.append(f"retry_after={self.retry_after!r}")
        if self.delay_multiplier != 1.0:
            parts.append(f"delay_multiplier={self.delay_multiplier!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


class RateLimitError(LLMError):
    """Report that too many requests were made; waiting helps."""

    retryable_by_default = True


class QuotaExceededError(RateLimitError):
    """Report that the account's quota or credit is used up; waiting does not help."""

    retryable_by_default = False


class AuthenticationError(LLMError):
    """Report missing or refused credentials."""


class AccessDeniedError(AuthenticationError):
    """Report valid credentials that lack the permission."""


class ContextLengthError(LLMError):
    """Report a request larger than the model's context window."""


class ContentFilterError(LLMError):
    """Report a request or an answer that the service's safety filter stopped."""


class InvalidRequestError(LLMError):
    """Report a request that the service could not accept as formed."""


class ProviderUnavailableError(LLMError):
    """Report a service that is down or failing on its side."""

    retryable_by_default = True


class NetworkError(ProviderUnavailableError):
    """Report a service that could not be reached."""


class LLMTimeoutError(LLMError):
    """Report a call that took longer than it was allowed to."""

    retryable_by_default = True


class NotFoundError(LLMError):
    """Report a model or endpoint that does not exist."""


class StreamError(LLMError):
    """Report a stream that broke before its end."""

    retryable_by_default = True


class AbortError(LLMError):
    """Report a call that the caller itself gave up."""


class InvalidToolCallError(LLMError):
    """Report a tool call by the model that cannot be understood.

    Args:
        tool_name: Tool the model named.
        raw_arguments: Arguments exactly as the model wrote them.
    """

    def __init__(
        self,
        message: str,
        *,
        tool_name: str | None = None,
        raw_arguments: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        delay_multiplier: float = 1.0,
    ) -> None:
        super().__init__(
            message,
            provider=provider,
            model=model,
            status_code=status_code,
            retryable=retryable,
            retry_after=retry_after,
            delay_multiplier=delay_multiplier,
        )
        self.tool_name = tool_name
        self.raw_arguments = raw_arguments


class ConfigurationError(LLMError):
    """Report a provider that is set up wrongly."""
