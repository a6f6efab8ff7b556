"""Call code of modules and apps, and stay in control whatever it does.

Handlers, contributors and callbacks run inside the caller's own task (a task of their own would cost more than most of
them do), but in a copy of its context, so that contextvars they set do not leak. Three things are distinguished that
asyncio does not distinguish: the outer task being cancelled (it propagates, always), foreign code raising a
CancelledError itself (a failure of that code), and a deadline of ours (a TimeoutError, never a refusal).
"""

from __future__ import annotations

import asyncio
import logging
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from inspect import isawaitable
from typing import Any
from weakref import WeakKeyDictionary

from amplifier_core.data import INTERRUPTS, describe

logger = logging.getLogger(__name__)

#: Seconds that code past its deadline gets to clean up before it is abandoned.
GRACE = 1.0

_COROUTINE = types.CoroutineType
#: Results that need not be looked at more closely: asking whether an object can be awaited costs more than most calls.
PLAIN = frozenset((type(None), bool, int, float, str, bytes, list, dict, tuple, set))

#: When a person last answered a question that the task waited for, by its loop's clock; infinite until they do.
_answered_at: WeakKeyDictionary[asyncio.Task[Any], float] = WeakKeyDictionary()
#: Whether the code here waits for a person's answer.
_is_asking: ContextVar[bool] = ContextVar("is_asking", default=False)


class ForeignCancelled(Exception):
    """Foreign code raised a CancelledError itself: its task was not cancelled."""

    def __init__(self) -> None:
        super().__init__("it raised CancelledError although its task was not cancelled")


class ForeignError(Exception):
    """Foreign code raised an exception that is no Exception, such as the panic of a native extension."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {describe(error)}")


#: What counts as the failure of a plain function of a module: nothing is awaited in it that could be cancelled.
FAULTS = (Exception, asyncio.CancelledError)


class DeadlineExceeded(TimeoutError):
    """Foreign code took longer than its deadline."""


async def maybe_await(value: Any) -> Any:
    """Return `value`, awaited first if it is awaitable."""
    return await value if type(value) is _COROUTINE or isawaitable(value) else value


def require_plain(value: Any) -> Any:
    """Return `value`; raise TypeError for an awaitable, which nothing here can await."""
    if value is None or type(value) is dict or not isinstance(value, Awaitable):
        return value
    if isinstance(value, Coroutine):
        value.close()  # else the interpreter warns that it was never awaited
    raise TypeError("it must be a plain function: nothing awaits an async one here")


def running_task() -> asyncio.Task[Any] | None:
    """Return the current task, or None when no event loop drives this code."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@contextmanager
def unhurried(task: asyncio.Task[Any] | None) -> Iterator[None]:
    """Suspend the deadlines that run in `task` while a person is asked; they start again after the answer.

    Deadlines that begin in the block limit the asking itself and are not suspended.
    """
    if task is None:
        yield
        return
    _answered_at[task] = math.inf
    token = _is_asking.set(True)
    try:
        yield
    finally:
        _is_asking.reset(token)
        _answered_at[task] = task.get_loop().time()


@types.coroutine
def call(
    task: asyncio.Task[Any] | None, deadline: float | None, function: Callable[..., Any], *arguments: Any
) -> Generator[Any, Any, Any]:
    """Call `function` in a copied context, and await the result if it is awaitable.

    `task` is `running_task()`, fetched by the caller once for many calls; `deadline` is in seconds. Raises whatever the
    function raises, as an Exception: a CancelledError of its own becomes ForeignCancelled, other errors that are no
    Exception ForeignError, and only KeyboardInterrupt and SystemExit pass as they are; DeadlineExceeded
    past the deadline; CancelledError when the outer task was cancelled meanwhile, even if the function swallowed it. A
    function that blocks without awaiting cannot be interrupted.
    """
    cancels = 0 if task is None else task.cancelling()
    if cancels:
        yield  # a pending cancellation arrives here, so that it is not blamed on the function
    context = copy_context()
    watch: _Deadline | None = None
    failure: BaseException | None = None
    try:
        outcome = context.run(function, *arguments)
        kind = type(outcome)
        if kind is not _COROUTINE:
            if kind in PLAIN or not isawaitable(outcome):
                return outcome
            outcome = maybe_await(outcome)
        try:
            pending = context.run(outcome.send, None)
        except StopIteration as stop:
            return stop.value
        if deadline is not None and task is not None:
            watch = _Deadline(deadline, task)
        outcome = yield from _drive(context, outcome, pending, watch)
    except (*INTERRUPTS, GeneratorExit):
        raise
    except BaseException as error:
        failure = error
    finally:
        if watch is not None:
            watch.close()
    if task is not None and task.cancelling() > cancels:
        raise asyncio.CancelledError from failure  # whatever the function made of it, the outer task was cancelled
    if watch is not None and watch.cancels:
        raise DeadlineExceeded(f"timeout after {watch.seconds:g} s") from failure
    if isinstance(failure, asyncio.CancelledError):
        raise ForeignCancelled from failure
    if isinstance(failure, Exception):
        raise failure  # with its own cause
    if failure is not None:
        raise ForeignError(failure) from failure
    return outcome


def begin(function: Callable[[], Any]) -> Any:
    """Call `function` in a copied context and return its result, which `call` can await; cheaper than `call`."""
    try:
        return copy_context().run(function)
    except (*INTERRUPTS, Exception):
        raise
    except asyncio.CancelledError as error:
        raise ForeignCancelled from error
    except BaseException as error:
        raise ForeignError(error) from error


def _drive(
    context: Context, coroutine: Coroutine[Any, Any, Any], pending: Any, watch: _Deadline | None
) -> Generator[Any, Any, Any]:
    """Run a coroutine that awaits `pending` to its end, step by step in `context`, yielding what it awaits."""
    while True:
        try:
            value = yield pending
            step: Callable[[Any], Any] = coroutine.send
        except GeneratorExit:
            context.run(coroutine.close)
            raise
        except BaseException as error:
            if watch is not None and watch.cancels > 1:
                context.run(coroutine.close)  # it ignored its cancellation
                raise
            step, value = coroutine.throw, error
        try:
            pending = context.run(step, value)
        except StopIteration as stop:
            return stop.value


class _Deadline:
    """Cancel the task that runs a coroutine when time is up, and again after a grace period."""

    def __init__(self, seconds: float, task: asyncio.Task[Any]) -> None:
        self.seconds = seconds
        #: How often the task was cancelled because of this deadline.
        self.cancels = 0
        self._task = task
        self._loop = task.get_loop()
        self._started = self._loop.time()
        self._limits_asking = _is_asking.get()
        self._timer = self._loop.call_later(seconds, self._expire)

    def close(self) -> None:
        """Stop the timer; the cancellations requested here were ours alone and are withdrawn."""
        self._timer.cancel()
        for _ in range(self.cancels):
            self._task.uncancel()

    def _expire(self) -> None:
        if not self.cancels and (more := self._extension()) > 0:
            self._timer = self._loop.call_later(more, self._expire)
            return
        self.cancels += 1
        self._task.cancel()
        self._timer = self._loop.call_later(GRACE, self._expire)

    def _extension(self) -> float:
        """Return by how many seconds the deadline is extended because a person was asked meanwhile."""
        answered = _answered_at.get(self._task)
        if answered is None or answered < self._started or self._limits_asking:
            return 0
        return self.seconds if answered == math.inf else answered + self.seconds - self._loop.time()


async def run_all(functions: Iterable[Callable[[], Any]], what: str = "Error during cleanup") -> None:
    """Run every function whatever the others do, awaiting what can be awaited.

    Exceptions are logged. The first KeyboardInterrupt, SystemExit or CancelledError is raised after all have run, and
    a cancellation of this task that a function swallowed is raised again.
    """
    task = running_task()
    cancels = task.cancelling() if task is not None else 0
    fatal: BaseException | None = None
    for function in functions:
        try:
            await maybe_await(function())
        except Exception as error:
            logger.error("%s: %s", what, describe(error), exc_info=error)
        except BaseException as error:
            fatal = fatal or error
    if fatal is None and task is not None and task.cancelling() > cancels:
        fatal = asyncio.CancelledError()
    if fatal is not None:
        raise fatal
