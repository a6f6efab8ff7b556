"""Call foreign code and stay in control, whatever it does.

Handlers, contributors and callbacks run inside the caller's own task (a task of their own would cost more than most of
them do), but in a copy of its context, so that contextvars they set do not leak. Three things are distinguished that
asyncio does not distinguish: the outer task being cancelled (it propagates, always), foreign code raising or asking for
its own CancelledError (a failure of that code), and a deadline of ours (a TimeoutError, never a refusal).
"""

from __future__ import annotations

import asyncio
import logging
import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from inspect import isawaitable
from typing import Any
from weakref import WeakKeyDictionary

from amplifier_core.data import INTERRUPTS, describe

logger = logging.getLogger(__name__)

#: Seconds that code past its deadline gets to clean up before it is abandoned.
GRACE = 1.0

#: Exceptions that are never caught on behalf of a module; `call()` raises GeneratorExit only when it is itself closed.
FATAL = (*INTERRUPTS, GeneratorExit)


_COROUTINE = types.CoroutineType
#: Results that need not be looked at more closely: asking whether an object can be awaited costs more than most calls.
PLAIN = frozenset((type(None), bool, int, float, str, bytes, list, dict, tuple, set))

#: Until when a person was asked on behalf of a task, by the clock of its loop; endless while they are.
_asked_until: WeakKeyDictionary[asyncio.Task[Any], float] = WeakKeyDictionary()
#: Whether it is a person's answer that is waited for here.
_is_asking: ContextVar[bool] = ContextVar("is_asking", default=False)


class ForeignCancelled(Exception):
    """Foreign code ended in a CancelledError (or GeneratorExit) that no outside code had requested."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"it ended in a {type(error).__name__} that no outside code had requested")


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
    _asked_until[task] = math.inf
    token = _is_asking.set(True)
    try:
        yield
    finally:
        _is_asking.reset(token)
        _asked_until[task] = task.get_loop().time()


@types.coroutine
def call(
    task: asyncio.Task[Any] | None, deadline: float | None, function: Callable[..., Any], *arguments: Any
) -> Generator[Any, Any, Any]:
    """Call `function` in a copied context, and await the result if it is awaitable.

    `task` is `running_task()`, fetched by the caller once for many calls; `deadline` is in seconds. Raises whatever the
    function raises, apart from a CancelledError that it caused itself, which becomes ForeignCancelled; DeadlineExceeded
    past the deadline; CancelledError when the outer task was cancelled meanwhile, even if the function swallowed it. A
    function that blocks without awaiting cannot be interrupted.
    """
    cancels = 0 if task is None else task.cancelling()
    if cancels:
        yield  # a pending cancellation arrives here, so that it is not blamed on the function
    context = copy_context()
    waited = False  # before the first wait, only the function itself can have cancelled the task
    try:
        outcome = context.run(function, *arguments)
        kind = type(outcome)
        if kind is not _COROUTINE and kind not in PLAIN and isawaitable(outcome):
            outcome = maybe_await(outcome)
            kind = _COROUTINE
        if kind is _COROUTINE:
            try:
                pending = context.run(outcome.send, None)
            except StopIteration as stop:
                outcome = stop.value
            else:
                waited = True
                outcome = yield from _drive(context, outcome, pending, task, cancels, deadline)
    except INTERRUPTS:
        raise
    except BaseException as error:
        if waited and isinstance(error, GeneratorExit):
            raise
        if task is not None and task.cancelling() > cancels:
            if waited:  # whatever the function made of it, the outer task was cancelled
                raise asyncio.CancelledError from error
            yield from _absorb(task, cancels)
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            raise ForeignCancelled(error) from error
        raise
    if task is not None and task.cancelling() > cancels:
        if waited:
            raise asyncio.CancelledError
        yield from _absorb(task, cancels)
    return outcome


class _Raised:
    """An exception that a function raised before its first await."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def begin(function: Callable[[], Any]) -> Any:
    """Call `function` in a copied context; a result whose type is in PLAIN is final, any other goes to `finish`.

    Together they do what `call` does without a deadline, at half the cost for functions that do not wait.
    """
    try:
        return copy_context().run(function)
    except INTERRUPTS:
        raise
    except BaseException as error:
        return _Raised(error)


@types.coroutine
def finish(task: asyncio.Task[Any] | None, cancels: int, outcome: Any) -> Generator[Any, Any, Any]:
    """Return or raise the outcome of a function that `begin` called when `task` had `cancels` pending cancellations."""
    if task is not None and task.cancelling() > cancels:
        yield from _absorb(task, cancels)
    if type(outcome) is not _Raised:
        return (yield from call(task, None, lambda: outcome))
    if isinstance(outcome.error, (asyncio.CancelledError, GeneratorExit)):
        raise ForeignCancelled(outcome.error) from outcome.error
    raise outcome.error


def _absorb(task: asyncio.Task[Any], cancels: int) -> Generator[None, Any, None]:
    """Undo a cancellation that foreign code requested for the task that runs it."""
    while task.cancelling() > cancels:
        task.uncancel()
    try:
        yield  # one turn of the loop: the request that is already on its way arrives here
    except asyncio.CancelledError:
        if task.cancelling() > cancels:
            raise  # the outer task was cancelled as well


def _drive(
    context: Context,
    coroutine: Coroutine[Any, Any, Any],
    pending: Any,
    task: asyncio.Task[Any] | None,
    cancels: int,
    deadline: float | None,
) -> Generator[Any, Any, Any]:
    """Run a coroutine that awaits `pending` to its end, step by step in `context`, yielding what it awaits."""
    watch = _Deadline(deadline, task) if deadline is not None else None
    try:
        while True:
            if task is not None:
                while task.cancelling() > cancels:  # it cancelled its own carrier: it alone will hear of that, below
                    task.uncancel()
            try:
                value = (yield pending) if watch is None else (yield from watch.wait(pending))
                step: Callable[[Any], Any] = coroutine.send
            except GeneratorExit:
                context.run(coroutine.close)
                raise
            except BaseException as error:
                if watch is not None and watch.abandoned:
                    _abandon(context, coroutine)
                    raise watch.error() from None
                step, value = coroutine.throw, error
            cancels = 0 if task is None else task.cancelling()
            try:
                pending = context.run(step, value)
            except StopIteration as stop:
                if task is not None and task.cancelling() > cancels:
                    yield from _absorb(task, cancels)
                if watch is not None and watch.expired:
                    raise watch.error() from None
                return stop.value
            except INTERRUPTS:
                raise
            except BaseException as error:
                if task is not None and task.cancelling() > cancels:
                    yield from _absorb(task, cancels)
                if watch is not None and watch.expired:
                    raise watch.error() from error
                if isinstance(error, GeneratorExit):
                    raise ForeignCancelled(error) from error
                raise
    finally:
        if watch is not None:
            watch.close()


def _abandon(context: Context, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that ignored its cancellation. The caller reports the timeout; log only a failure to close."""
    try:
        context.run(coroutine.close)
    except INTERRUPTS:
        raise
    except BaseException as error:
        # By name: a log record that holds the coroutine itself would keep it alive.
        name = getattr(coroutine, "__qualname__", "a handler")
        logger.warning("%s was abandoned after its timeout and did not even close: %s", name, describe(error))


class _Deadline:
    """Await what a coroutine awaits, until a deadline and a grace period have passed."""

    def __init__(self, seconds: float, task: asyncio.Task[Any] | None) -> None:
        self.seconds = seconds
        self.expired = False
        self.abandoned = False
        self._cancelled = False
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._gate: asyncio.Future[None] | None = None
        self._started = self._loop.time()
        self._limits_asking = _is_asking.get()
        self._timer = self._loop.call_later(seconds, self._expire)

    def error(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"timeout after {self.seconds:g} s")

    def close(self) -> None:
        self._timer.cancel()

    def _expire(self) -> None:
        if not self.expired and (more := self._extension()) > 0:
            self._timer = self._loop.call_later(more, self._expire)
            return
        self.abandoned = self.expired
        self.expired = True
        self._timer = self._loop.call_later(GRACE, self._expire)
        self._open()

    def _extension(self) -> float:
        """Return by how many seconds the deadline is extended because a person was asked meanwhile."""
        until = _asked_until.get(self._task) if self._task is not None else None
        if until is None or until < self._started or self._limits_asking:
            return 0
        return self.seconds if until == math.inf else until + self.seconds - self._loop.time()

    def _open(self, _done: object = None) -> None:
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def _must_cancel_now(self) -> bool:
        """Return True once after the deadline, when the coroutine is to be cancelled."""
        is_new = self.expired and not self._cancelled
        self._cancelled = self.expired
        return is_new

    def _can_be_awaited(self, pending: Any) -> bool:
        """Return whether `pending` is a future that this task can wait for."""
        if pending is self._task or not getattr(pending, "_asyncio_future_blocking", False):
            return False
        return pending.get_loop() is self._loop

    def wait(self, pending: Any) -> Generator[Any, Any, Any]:
        """Wait for `pending` as asyncio would, passing cancellations on to it; the deadline is one of them.

        Raises CancelledError when there is nothing to pass it on to, and when the grace is over.
        """
        if not self._can_be_awaited(pending):
            value = yield pending
            if self._must_cancel_now() or self.abandoned:
                raise asyncio.CancelledError
            return value
        # Waiting on a gate, not on `pending`: an inner task that ignores its cancellation must not hold us. asyncio has
        # no public way to take a future over that a coroutine already waits for, and this attribute is what every task
        # resets (test_inner_task_that_ignores_cancellation shows that nothing less is enough).
        pending._asyncio_future_blocking = False
        pending.add_done_callback(self._open)
        try:
            while not pending.done():
                if self._must_cancel_now() or self.abandoned:
                    pending.cancel()
                    if self.abandoned:
                        raise asyncio.CancelledError
                    continue
                self._gate = self._loop.create_future()
                try:
                    yield from self._gate
                except asyncio.CancelledError:
                    if not pending.cancel():
                        raise
        finally:
            pending.remove_done_callback(self._open)
        return None
