"""Retries: the attempts that one call takes, within the limits on requests and behind the circuit breaker."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from amplifier_core.events import PROVIDER_RETRY, PROVIDER_THROTTLE
from amplifier_core.llm_errors import LLMError, LLMTimeoutError, ProviderUnavailableError, StreamError
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.engine.usage import InvalidUsageError, require_allowance
from amplifier_kit.llm.errors import to_llm_error
from amplifier_kit.llm.limits import CircuitState, limits_for
from amplifier_kit.llm.request import LLMCall
from amplifier_kit.llm.response import Answer

if TYPE_CHECKING:
    from amplifier_kit.llm.provider import LLMProvider

CONCURRENCY_EVENT: Final = "provider:concurrency"
_CIRCUIT_OPEN: Final = "provider:circuit_open"
_CIRCUIT_CLOSED: Final = "provider:circuit_closed"
CIRCUIT_EVENTS: Final = (_CIRCUIT_OPEN, _CIRCUIT_CLOSED)

#: The largest random share that is added to a delay that a service asked for.
_SPREAD: Final = 0.1
#: Enough to reach any delay; more would overflow.
_MOST_DOUBLINGS: Final = 60


class Attempts:
    """Make one call, and retry it where that can help."""

    def __init__(self, provider: LLMProvider, call: LLMCall, request_id: str) -> None:
        self._provider = provider
        self._call = call
        self._settings = provider.settings
        self._limits = limits_for(provider.account)
        self._request_id = request_id
        self._facts = {"provider": provider.name, "model": call.model}
        #: The number of attempts begun.
        self.count = 0
        #: Complete answers that could not be used; they still cost money.
        self.wasted: list[Answer] = []
        #: The number of attempts that broke off after they may have cost money; the amount is unknown.
        self.broken = 0

    async def make(self, attempt: Callable[[Answer], Awaitable[None]]) -> Answer:
        """Return the finished answer of the first attempt that succeeds; raise the error of the last.

        `attempt` feeds the answer it is given; the first answer has the id of the call, later ones have new ids.
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
        while True:
            self.count += 1
            try:
                async with self._limits.concurrency.slot(self._settings.max_concurrent_requests, self._emit_waiting):
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
        answer = Answer(emitter, self._provider.wire.name)
        try:
            await attempt(answer)
            answer.response()  # raises for an answer that is incomplete or cannot be read
        except asyncio.CancelledError as error:
            self.broken += 1
            await answer.abort(error)
            raise
        except Exception as error:
            failed = to_llm_error(error, self._provider.endpoint, self._call.model)
            if answer.is_finished and answer.tokens is not None:
                self.wasted.append(answer)
            elif answer.has_begun or isinstance(failed, StreamError | LLMTimeoutError | InvalidUsageError):
                # A service that refused the request, or was not reached, took nothing; this one may have.
                self.broken += 1
            await answer.abort(failed)
            if failed is error:
                raise
            raise failed from error
        return answer

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
        delay = min(settings.min_retry_delay * 2.0 ** min(self.count - 1, _MOST_DOUBLINGS), settings.max_retry_delay)
        if math.isfinite(error.delay_multiplier) and error.delay_multiplier > 0:
            delay *= error.delay_multiplier
        if settings.retry_jitter:
            delay *= random.uniform(0.5, 1.5)
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

    async def _emit_waiting(self, counts: dict[str, int]) -> None:
        await self._provider.emit(CONCURRENCY_EVENT, {**self._facts, **counts})

    async def _throttle(self) -> None:
        due = self._limits.throttle.due(self._settings.throttle_threshold, self._settings.throttle_delay)
        if due is not None:
            await self._provider.emit(PROVIDER_THROTTLE, {**self._facts, "request_id": self._request_id, **due})
            await asyncio.sleep(due["delay"])

    async def _check_breaker(self) -> None:
        breaker, settings = self._limits.breaker, self._settings
        state, left = breaker.enter(settings.circuit_breaker_threshold, settings.circuit_breaker_cooldown)
        if state == "half_open":
            await self._emit_circuit(state)
        if state == "open":
            test = f"amplifier provider test {self._provider.endpoint.name_in_commands}"
            raise ProviderUnavailableError(
                f"{self._provider.name}: not called, because the last {breaker.failures} calls failed; it is tried "
                f"again in {left:.0f} s. Choose another provider, or run `{test}`",
                provider=self._provider.name,
                model=self._call.model,
                retryable=False,
                retry_after=left,
            )

    async def _report(self, error: BaseException | None) -> None:
        state = self._limits.breaker.report(error, self._settings.circuit_breaker_threshold)
        if state is not None:
            await self._emit_circuit(state)

    async def _emit_circuit(self, state: CircuitState) -> None:
        counts = {"failures": self._limits.breaker.failures, "cooldown": self._settings.circuit_breaker_cooldown}
        # Half open counts as open: one call passes, to see whether it can be closed.
        event = _CIRCUIT_CLOSED if state == "closed" else _CIRCUIT_OPEN
        await self._provider.emit(event, {**self._facts, "state": state, **counts})
