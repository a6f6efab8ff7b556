"""Use the result of code that may be `def` or `async def`.

Modules and apps may write most of their methods either way. Callers use `maybe_await`; code that cannot await uses
`plain_result`, which rejects a coroutine, because an unawaited one is true in every condition and does nothing; code
that cannot wait and needs no answer uses `await_soon`. The kernel has such functions too; these exist so that modules
also run on the published kernel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any

#: Tasks started by `await_soon`, held here because asyncio holds them weakly.
_running: set[Any] = set()


async def maybe_await(value: Any) -> Any:
    return await value if isawaitable(value) else value


def plain_result(value: Any) -> Any:
    """Return `value`; raise TypeError when it would have to be awaited."""
    if isinstance(value, Coroutine):
        value.close()  # else the interpreter warns that it was never awaited
    elif not isinstance(value, Awaitable):
        return value
    raise TypeError("it must be a plain function: nothing awaits an async one here")


def await_soon(value: Any, on_error: Callable[[Exception], object]) -> None:
    """Await `value` in a new task if it is awaitable; `on_error` gets its exception, later.

    Raises RuntimeError when it must be awaited and no event loop runs.
    """
    if not isawaitable(value):
        return
    import asyncio  # a caller with something to await has imported it already

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
    """An awaitable that is done: returned by plain methods that some callers await."""

    def __await__(self) -> Any:
        """Return at once."""
        return iter(())


DONE = Done()
