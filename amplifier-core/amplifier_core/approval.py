"""How the kernel asks a person for permission; an app supplies the implementation.

`authorization.ask` makes the request and reports the outcome; `put` here is the one place where a request meets an
approval system, whichever of the two kinds it is. Importing this module loads no model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from amplifier_core.bounded_call import maybe_await

if TYPE_CHECKING:
    from amplifier_core.approval_models import ApprovalRequest, ApprovalResponse

__all__ = [
    "AnsweredBy",
    "ApprovalHandler",
    "ApprovalSystem",
    "ApprovalTimeoutError",
    "WaitClock",
    "is_consent",
    "measure_waits",
    "put",
]

#: Who decided: a `kind` such as `person`, `rule` or `timeout`, and what goes with it. See docs/security.md.
AnsweredBy = Mapping[str, str]

_CONSENT: Final = frozenset({"allow", "allow once", "allow always"})


class ApprovalTimeoutError(Exception):
    """No answer came in time; the default decides, and this is not a refusal."""


class ApprovalSystem(Protocol):
    """Put a question to a person and return the answer."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return one of `options`; raise `ApprovalTimeoutError` after `timeout` seconds without an answer."""
        ...


class ApprovalHandler(ABC):
    """An approval system that gets the whole request, and can say who answered it."""

    @abstractmethod
    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer a request; raise `ApprovalTimeoutError` when no answer comes within `request.timeout` seconds."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Answer a caller that knows only a prompt: a module that calls the approval system itself."""
        from uuid import uuid4

        from amplifier_core.approval_models import ApprovalRequest
        from amplifier_core.trace import current_scope

        scope = current_scope()
        request = ApprovalRequest(
            tool_name="",
            action="",
            risk_level="unknown",
            timeout=timeout if 0 < timeout < float("inf") else None,
            id=uuid4().hex,
            session_id=scope.owner.session_id if scope is not None else None,
            span_id=scope.span_id if scope is not None else None,
            origin="module",
            prompt=prompt,
            options=options,
            default=default,
        )
        return (await self.decide(request)).text


async def put(system: Any, request: ApprovalRequest) -> ApprovalResponse:
    """Put a request to an approval system and return its answer, which carries the id of the request.

    An `ApprovalHandler` gets the request. Any other system is asked by the published signature, and its answer counts
    as a yes only if it is one of the published words. Raises what the system raises, and TypeError for an answer of
    the wrong type.
    """
    from amplifier_core.approval_models import ApprovalResponse

    with ExitStack() as waiting:
        for clock in _clocks.get():
            waiting.enter_context(clock)
        if isinstance(system, ApprovalHandler):
            response = await system.decide(request)
            if not isinstance(response, ApprovalResponse):
                raise TypeError(f"An approval handler must answer with ApprovalResponse, got {type(response).__name__}")
            return response.model_copy(update={"approval_id": request.id})
        timeout = float("inf") if request.timeout is None else request.timeout
        options = list(request.options or ())
        answer = await maybe_await(system.request_approval(request.prompt, options, timeout, request.default))
    if not isinstance(answer, str):
        raise TypeError(f"The approval system must answer with a string, got {type(answer).__name__}")
    return ApprovalResponse(approved=is_consent(answer), answer=answer, approval_id=request.id)


def is_consent(answer: object) -> bool:
    """Return whether an approval system's answer means yes; everything unknown means no."""
    return isinstance(answer, str) and answer.lower() in _CONSENT


class WaitClock:
    """Measure how long the session waited for people: the time in `with` blocks; overlapping ones count once."""

    def __init__(self) -> None:
        self._pending = 0
        self._since = self._seconds = 0.0

    @property
    def ms(self) -> int:
        """Milliseconds spent waiting for answers so far."""
        running = monotonic() - self._since if self._pending else 0.0
        return round((self._seconds + running) * 1000)

    def __enter__(self) -> None:
        if not self._pending:
            self._since = monotonic()
        self._pending += 1

    def __exit__(self, *_: object) -> None:
        self._pending -= 1
        if not self._pending:
            self._seconds += monotonic() - self._since


_clocks: ContextVar[tuple[WaitClock, ...]] = ContextVar("amplifier_wait_clocks", default=())


@contextmanager
def measure_waits() -> Iterator[WaitClock]:
    """Give a clock that measures how long people are waited for in a block, and in the tasks that start in it.

    A tool call that asks, or whose child sessions ask, can thus be timed without the person's thinking.
    """
    clock = WaitClock()
    token = _clocks.set((*_clocks.get(), clock))
    try:
        yield clock
    finally:
        _clocks.reset(token)
