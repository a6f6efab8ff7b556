"""State how every provider fails, as tests: inherit `FaultConformance` in the tests of a provider module."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from amplifier_core.llm_errors import (
    AccessDeniedError,
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    NotFoundError,
    ProviderUnavailableError,
    RateLimitError,
    StreamError,
)
from amplifier_core.testing import wait_for
from amplifier_kit.engine.usage import BudgetExhaustedError
from amplifier_kit.llm.limits import limits_for
from amplifier_testing.llm.conformance import ConformanceBase, MakeRig
from amplifier_testing.llm.gathered import Gathered
from amplifier_testing.llm.reply import Reply
from amplifier_testing.llm.rig import KEY, ask
from amplifier_testing.llm.script import Said, WireServer

__all__ = ["FaultConformance", "Trouble"]

_RETRIES = 2
_MANY = 200
_TOO_LONG = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens"


class Trouble(NamedTuple):
    """One way to fail: what the server does, the error it must become, and whether it is tried again."""

    reply: Callable[[WireServer], Reply]
    error: type[LLMError]
    is_retried: bool
    config: Mapping[str, Any] = MappingProxyType({})


def _whole(wire: WireServer) -> Reply:
    return wire.reply(Said(("Hello", " world", " again")))


def _refused(status: int, kind: str = "", message: str = "no", **headers: str) -> Callable[[WireServer], Reply]:
    return lambda wire: wire.refusal(status, kind, message, **headers)


#: To be connected and to ask is given the time that a busy machine needs: only the silence is cut short.
_IMPATIENT = {"stream_idle_timeout": 0.3, "timeout": 60}

TROUBLES: dict[str, Trouble] = {
    "401": Trouble(_refused(401, message=f"invalid key {KEY}"), AuthenticationError, False),
    "403": Trouble(_refused(403), AccessDeniedError, False),
    "403 page": Trouble(lambda wire: Reply.page(403), ProviderUnavailableError, True),
    "404": Trouble(_refused(404, message="no such model"), NotFoundError, False),
    "400": Trouble(_refused(400, message="what is this?"), InvalidRequestError, False),
    "400 too long": Trouble(_refused(400, message=_TOO_LONG), ContextLengthError, False),
    "413": Trouble(_refused(413), ContextLengthError, False),
    "429": Trouble(_refused(429), RateLimitError, True),
    "429 soon": Trouble(_refused(429, retry_after="0"), RateLimitError, True),
    "429 much later": Trouble(_refused(429, retry_after="3600"), RateLimitError, False),
    "500": Trouble(_refused(500), ProviderUnavailableError, True),
    "502 page": Trouble(lambda wire: Reply.page(502), ProviderUnavailableError, True),
    "503": Trouble(_refused(503), ProviderUnavailableError, True),
    "529": Trouble(_refused(529), ProviderUnavailableError, True),
    "cut at once": Trouble(lambda wire: _whole(wire).cut(0), StreamError, True),
    "cut": Trouble(lambda wire: _whole(wire).cut(wire.first_text), StreamError, True),
    "truncated": Trouble(lambda wire: _whole(wire).truncated(wire.first_text), StreamError, True),
    "empty": Trouble(lambda wire: _whole(wire).truncated(0), StreamError, True),
    "half an event": Trouble(
        lambda wire: _whole(wire).truncated(wire.first_text).inserted(wire.first_text - 1, wire.garbage()[:20]),
        StreamError,
        True,
    ),
    "garbage": Trouble(lambda wire: _whole(wire).inserted(wire.first_text, wire.garbage()), StreamError, True),
    "stalled": Trouble(lambda wire: _whole(wire).stalled(wire.first_text), LLMTimeoutError, True, _IMPATIENT),
    "hung": Trouble(lambda wire: Reply.hang(), LLMTimeoutError, True, _IMPATIENT),
}


class FaultConformance(ConformanceBase):
    """The outcome of every fault: the right error, the right number of attempts, no partial work left behind."""

    #: Errors in the middle of a stream: the service's word, and the error it must become.
    stream_errors: ClassVar[dict[str, type[LLMError]]] = {}
    #: Faults of the table that a service shows in another way: the error it becomes instead.
    differing: ClassVar[dict[str, type[LLMError]]] = {}

    @pytest.mark.parametrize("name", TROUBLES)
    async def test_fault(self, rig: MakeRig, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Every fault becomes its error, is tried again exactly when that can help, and leaks neither key nor task."""
        trouble = TROUBLES[name]
        expected = self.differing.get(name, trouble.error)
        one = await rig(trouble.reply(self.wire), max_retries=_RETRIES, **trouble.config)
        running = set(asyncio.all_tasks())
        with caplog.at_level(logging.DEBUG), pytest.raises(LLMError) as caught:
            await one.provider.complete(ask())
        error = caught.value
        assert type(error) is expected, repr(error)
        assert len(one.server.requests) == (1 + _RETRIES if trouble.is_retried else 1)
        assert error.retryable is (trouble.is_retried or name == "429 much later")
        assert (error.provider, error.model) == (one.provider.name, one.provider.model)
        assert len(one.events("provider:retry")) == (_RETRIES if trouble.is_retried else 0)
        response = one.event("llm:response")
        assert (response["status"], response["error"]["type"]) == ("error", expected.__name__)
        assert "\n" not in str(error)
        assert KEY not in f"{error!r} {error} {json.dumps(one.heard)} {caplog.text}"
        # What was begun is called off, once for each attempt that had begun.
        begun = {start["request_id"] for start in one.events("llm:stream_block_start")}
        assert {aborted["request_id"] for aborted in one.events("llm:stream_aborted")} == begun
        assert one.provider.ledger.contribution() is None
        # Generators that an SDK leaves behind are closed by the loop, in a separate task.
        assert await wait_for(lambda: {task for task in asyncio.all_tasks() if not task.done()} <= running, timeout=60)
        await one.provider.close()
        assert await wait_for(lambda: one.server.connections == 0, timeout=60)

    async def test_errors_inside_a_stream(self, rig: MakeRig) -> None:
        """An error event in the middle of an answer is that error, and calls off what was begun."""
        assert self.stream_errors, "name the errors, or say in `without` why there are none"
        for kind, expected in self.stream_errors.items():
            event = self.wire.error_event(kind, "sorry")
            one = await rig(_whole(self.wire).inserted(self.wire.first_text, event), max_retries=0)
            one.server.clear()
            one.server.answers(_whole(self.wire).inserted(self.wire.first_text, event))
            with pytest.raises(LLMError) as caught:
                await one.provider.complete(ask())
            assert type(caught.value) is expected, kind
            assert one.event("llm:stream_aborted")["error"]["type"] == expected.__name__

    async def test_a_retry_that_works(self, rig: MakeRig) -> None:
        """After a broken stream the next attempt streams under a new id, and only that one is kept."""
        one = await rig(_whole(self.wire).cut(self.wire.first_text), Said())
        response = await one.provider.complete(ask())
        assert response.text == "Hello world"
        assert one.names.count("llm:request") == one.names.count("llm:response") == 1
        first, second = dict.fromkeys(data["request_id"] for data in one.events("llm:stream_block_start"))
        assert one.event("llm:stream_aborted")["request_id"] == first == one.event("llm:request")["request_id"]
        assert second != first
        retry = one.event("provider:retry")
        assert (retry["attempt"], retry["error_type"], retry["max_retries"]) == (1, "StreamError", 2)
        assert one.event("llm:response")["attempts"] == 2

    async def test_no_server(self, rig: MakeRig) -> None:
        """A service that is not there is one line that says where it was looked for and what to do."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        one = await rig(url=url, max_retries=1)
        with pytest.raises(NetworkError, match="amplifier provider test") as caught:
            await one.provider.complete(ask())
        assert url in str(caught.value)
        assert len(one.events("provider:retry")) == 1

    async def test_listing_models_fails_the_same_way(self, rig: MakeRig) -> None:
        """A wrong key is the same error when models are listed, without the key in it."""
        one = await rig(self.wire.refusal(401, "authentication_error", f"invalid key {KEY}"))
        with pytest.raises(AuthenticationError) as caught:
            await one.provider.list_models()
        assert KEY not in str(caught.value)

    async def test_a_deadline(self, rig: MakeRig) -> None:
        """A request with a `timeout` is given up after it, for good."""
        one = await rig(_whole(self.wire).stalled(self.wire.first_text))
        for seconds in (0.3, 10):  # twice only where it had not even been asked by then
            with pytest.raises(LLMTimeoutError):
                await one.provider.complete(ask(timeout=seconds))
            if one.server.requests:
                break
        assert len(one.server.requests) == 1

    async def test_a_budget_that_is_used_up(self, rig: MakeRig) -> None:
        """Before every attempt the session's budget is asked, and when it says no, nothing is sent."""
        one = await rig(self.wire.refusal(503, "api_error", "down"))
        allowed = iter([None])
        budget = SimpleNamespace(check=lambda: next(allowed, "all is used up"))
        one.coordinator.register_capability("session.budget", budget)
        with pytest.raises(BudgetExhaustedError, match="all is used up"):
            await one.provider.complete(ask())
        assert len(one.server.requests) == len(one.events("provider:retry")) == 1
        with pytest.raises(BudgetExhaustedError):
            await one.provider.complete(ask())
        assert len(one.server.requests) == 1

    async def test_at_most_so_many_at_once(self, rig: MakeRig) -> None:
        """`max_concurrent_requests` holds for all providers of one account, and waiting emits an event."""
        one = await rig(self.wire.reply(Said()).slow(0.02), max_concurrent_requests=2)
        answers = await asyncio.gather(*(one.provider.complete(ask()) for _ in range(6)))
        assert [answer.text for answer in answers] == ["Hello world"] * 6
        assert one.server.most_at_once == 2
        waited = one.events("provider:concurrency")
        assert len(waited) == 4
        assert waited[0]["max_concurrent"] == 2

    async def test_many_at_once(self, rig: MakeRig) -> None:
        """With the limit off, 200 streams run at the same time."""
        one = await rig(max_concurrent_requests=0)
        # None continues after its first piece before all have begun: with a hidden limit they would wait forever.
        one.server.answers(Gathered.of(self.wire.reply(Said()), one.server, _MANY))
        answers = await asyncio.wait_for(asyncio.gather(*(one.provider.complete(ask()) for _ in range(_MANY))), 60)
        assert [answer.text for answer in answers] == ["Hello world"] * _MANY
        assert one.server.most_at_once == len(one.server.requests) == _MANY
        assert one.events("provider:concurrency") == []

    async def test_circuit_breaker(self, rig: MakeRig) -> None:
        """A service that fails again and again is left alone for a while, and then tried once."""
        settings = {"max_retries": 0, "circuit_breaker_threshold": 2, "circuit_breaker_cooldown": 3600}
        failing = self.wire.refusal(500, "api_error", "down")
        one = await rig(failing, failing, Said(), **settings)
        for _ in range(3):
            with pytest.raises(ProviderUnavailableError):
                await one.provider.complete(ask())
        assert len(one.server.requests) == 2
        breaker = limits_for(one.provider.account).breaker
        assert breaker._opened_at is not None
        breaker._opened_at -= 3600  # an hour later
        assert (await one.provider.complete(ask())).text == "Hello world"
        assert [told["state"] for told in one.events("provider:circuit_open")] == ["open", "half_open"]
        assert [told["state"] for told in one.events("provider:circuit_closed")] == ["closed"]
