"""Use what foreign code returned, whether it is a plain function's result or must be awaited.

Modules and apps may write most of their methods as `def` or as `async def`. Whoever calls one awaits the result by
`maybe_await`; where nothing can be awaited, `plain_result` refuses a coroutine instead of taking it for an answer: it
is true in every condition, and what it stands for never happens. `await_soon` is for code that cannot wait and needs no
answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any

__all__ = ["DONE", "Done", "await_soon", "maybe_await", "plain_result"]

#: What `await_soon` has begun: a task that nobody holds may be collected before it is done.
_running: set[Any] = set()


async def maybe_await(value: Any) -> Any:
    """Return `value`, awaited first where it can be."""
    return await value if isawaitable(value) else value


def plain_result(value: Any) -> Any:
    """Return `value`; raise TypeError when it would have to be awaited, which its caller cannot do."""
    if isinstance(value, Coroutine):
        value.close()  # else the interpreter warns that it was never awaited
    elif not isinstance(value, Awaitable):
        return value
    raise TypeError("it must be a plain function: nothing awaits an async one here")


def await_soon(value: Any, on_error: Callable[[Exception], object]) -> None:
    """Await `value` in a task of its own where it must be awaited; `on_error` is told what it raises, never now.

    Raises RuntimeError when it must be awaited and no event loop runs.
    """
    if not isawaitable(value):
        return
    import asyncio  # whoever has something to await has it already

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if isinstance(value, Coroutine):
            value.close()
        raise RuntimeError("nothing awaits an async function where no event loop runs") from None
    task = loop.create_task(maybe_await(value))

    def end(done: asyncio.Future[Any]) -> None:
        _running.discard(done)
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Exception):
            on_error(error)

    _running.add(task)
    task.add_done_callback(end)


class Done:
    """Be awaitable with nothing left to do: what a plain method returns that some callers await."""

    def __await__(self) -> Any:
        """Return at once."""
        return iter(())


DONE = Done()
