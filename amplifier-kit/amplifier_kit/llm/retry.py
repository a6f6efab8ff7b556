"""Retries: the attempts that one call takes, within the limits on requests and behind the circuit breaker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from amplifier_core.events import PROVIDER_RETRY, PROVIDER_THROTTLE
from amplifier_core.llm_errors import LLMError, LLMTimeoutError, ProviderUnavailableError, StreamError
from amplifier_core.utils.retry import RetryConfig, compute_delay
from amplifier_kit.engine.budget import require_allowance
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.engine.usage import InvalidUsageError
from amplifier_kit.llm.circuit_breaker import circuit_breaker_for
from amplifier_kit.llm.config import ProviderConfig
from amplifier_kit.llm.errors import Endpoint, to_llm_error
from amplifier_kit.llm.rate_limit import concurrency_limit_for, throttle_for
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer

__all__ = ["CIRCUIT_EVENTS", "CONCURRENCY_EVENT", "Attempts", "RetryProvider"]

CONCURRENCY_EVENT: Final = "provider:concurrency"
_CIRCUIT_OPEN: Final = "provider:circuit_open"
_CIRCUIT_CLOSED: Final = "provider:circuit_closed"
CIRCUIT_EVENTS: Final = (_CIRCUIT_OPEN, _CIRCUIT_CLOSED)

_SPREAD: Final = 0.1


class RetryProvider(Protocol):
    """The part of a provider that the attempts of a call need."""

    name: str
    settings: ProviderConfig
    endpoint: Endpoint
    account: tuple[Any, ...]
    coordinator: Any

    @property
    def hooks(self) -> Any:
        """Return the session's hooks, None when there is no session."""

    def retries_for(self, error: LLMError) -> int:
        """Return how many further attempts an error is worth."""

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event when there is a session."""


class Attempts:
    """Make one call, and retry it where that can help."""

    def __init__(self, provider: RetryProvider, call: LLMCall, request_id: str) -> None:
        self._provider = provider
        self._call = call
        self._settings = provider.settings
        self._request_id = request_id
        self._facts = {"provider": provider.name, "model": call.model}
        #: How many attempts were begun.
        self.count = 0
        #: Complete answers that could not be used; they cost money all the same.
        self.wasted: list[Answer] = []
        #: How many attempts broke off after they may have cost money; the amount is unknown.
        self.broken = 0

    async def make(self, attempt: Callable[[Answer], Awaitable[None]]) -> Answer:
        """Return the finished answer of the first attempt that succeeds; raise the error of the last.

        `attempt` feeds the answer it is given; the first answer has the id of the call, later ones ids of their own.
        """
        await self._check_breaker()
        try:
            answer = await self._retry(attempt)
        except BaseException as error:
            await self._report(error)
            raise
        await self._report(None)
        return answer

    async def _retry(self, attempt: Callable[[Answer], Awaitable[None]]) -> Answer:
        limit = concurrency_limit_for(self._provider.account)
        while True:
            self.count += 1
            try:
                async with limit.slot(self._settings.max_concurrent_requests, self._emit_waiting):
                    await self._throttle()
                    require_allowance(self._provider.coordinator, self._provider.name, self._call.model)
                    return await self._once(attempt)
            except LLMError as error:
                delay = self._delay(error)
                if delay is None:
                    raise
                await self._emit_retry(error, delay)
            await asyncio.sleep(delay)

    async def _once(self, attempt: Callable[[Answer], Awaitable[None]]) -> Answer:
        request_id = self._request_id if self.count == 1 else None
        emitter = StreamEmitter(self._provider.hooks, request_id, enabled=self._call.streams)
        answer = Answer(emitter, self._provider.endpoint.wire.name)
        try:
            await attempt(answer)
            answer.response()  # raises for an answer that is incomplete or cannot be read
        except asyncio.CancelledError as error:
            self.broken += 1
            await answer.abort(error)
            raise
        except Exception as error:
            failed = to_llm_error(error, self._provider.endpoint, self._call.model)
            self._note_waste(answer, failed)
            await answer.abort(failed)
            if failed is error:
                raise
            raise failed from error
        return answer

    def _note_waste(self, answer: Answer, error: LLMError) -> None:
        """Remember what a failed attempt has used: a service that refused a request, or was not reached, took nothing.

        One that did not answer in time, or not to the end, may have.
        """
        if answer.is_finished and answer.tokens is not None:
            self.wasted.append(answer)
        elif answer.has_begun or isinstance(error, StreamError | LLMTimeoutError | InvalidUsageError):
            self.broken += 1

    def _delay(self, error: LLMError) -> float | None:
        """Return the seconds to wait before another attempt, None for no further attempt.

        The delay that a service asks for is respected, and never shortened by jitter; when it is longer than
        `max_retry_delay`, there is no further attempt.
        """
        settings, asked = self._settings, error.retry_after
        if not error.retryable or self.count > self._provider.retries_for(error):
            return None
        if asked is not None and asked > settings.max_retry_delay:
            return None
        config = RetryConfig(
            initial_delay=settings.min_retry_delay,
            max_delay=settings.max_retry_delay,
            jitter=settings.retry_jitter,
        )
        delay = compute_delay(config, self.count - 1, None, error.delay_multiplier)
        if asked is not None:
            spread = 1 + random.random() * _SPREAD if settings.retry_jitter else 1.0
            delay = max(delay, asked * spread)
        return delay

    async def _emit_retry(self, error: LLMError, delay: float) -> None:
        data = {
            **self._facts,
            "request_id": self._request_id,
            "attempt": self.count,
            "max_retries": self._provider.retries_for(error),
            "delay": round(delay, 3),
            "error_type": type(error).__name__,
            "error_message": str(error),
        }
        if error.retry_after is not None:
            data["retry_after"] = error.retry_after
        await self._provider.emit(PROVIDER_RETRY, data)

    async def _emit_waiting(self, numbers: dict[str, int]) -> None:
        await self._provider.emit(CONCURRENCY_EVENT, {**self._facts, **numbers})

    async def _throttle(self) -> None:
        settings = self._settings
        due = throttle_for(self._provider.account).due(settings.throttle_threshold, settings.throttle_delay)
        if due is not None:
            await self._provider.emit(PROVIDER_THROTTLE, {**self._facts, "request_id": self._request_id, **due})
            await asyncio.sleep(due["delay"])

    async def _check_breaker(self) -> None:
        threshold, cooldown = self._settings.circuit_breaker_threshold, self._settings.circuit_breaker_cooldown
        breaker = circuit_breaker_for(self._provider.account)
        state, left = breaker.enter(threshold, cooldown, time.monotonic())
        if state == "half_open":
            await self._emit_circuit(state)
        if state == "open":
            test = f"amplifier provider test {self._provider.endpoint.called}"
            raise ProviderUnavailableError(
                f"{self._provider.name}: not asked, because the last {breaker.failures} calls failed; it is tried "
                f"again in {left:.0f} s. Choose another provider, or run `{test}`",
                provider=self._provider.name,
                model=self._call.model,
                retryable=False,
                retry_after=left,
            )

    async def _report(self, error: BaseException | None) -> None:
        state = circuit_breaker_for(self._provider.account).report(error, self._settings.circuit_breaker_threshold)
        if state is not None:
            await self._emit_circuit(state)

    async def _emit_circuit(self, state: str) -> None:
        failures = circuit_breaker_for(self._provider.account).failures
        cooldown = self._settings.circuit_breaker_cooldown
        # Half open is open: one call is let through, to see whether it can be closed.
        event = _CIRCUIT_CLOSED if state == "closed" else _CIRCUIT_OPEN
        await self._provider.emit(event, {**self._facts, "state": state, "failures": failures, "cooldown": cooldown})
