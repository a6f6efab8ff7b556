"""Run a child in a process of its own that has the variables it needs and no others, and leave nothing of it behind."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.approval import ApprovalTimeoutError, put
from amplifier_core.cancellation import CancellationToken
from amplifier_foundation.children.child import Surroundings, Task
from amplifier_foundation.children.errors import ChildBusyError, ChildError, ChildFailedError, ChildRefusedError
from amplifier_foundation.children.frames import Frame, read_frame, write_frame
from amplifier_foundation.children.job import environment_for, write_job
from amplifier_foundation.children.left_log import end_left_log
from amplifier_foundation.children.origin import ChildFacts, Origin
from amplifier_foundation.children.stored import Result
from amplifier_kit.awaitable import await_soon
from amplifier_kit.engine.tasks import cancel_and_wait, run_to_end
from amplifier_kit.guard.processes import CommandSpec, Output, RunningCommand, StartError, start
from amplifier_kit.guard.processes.launch import make_socket_folder

if TYPE_CHECKING:
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.usage import SessionBudget

logger = logging.getLogger(__name__)

#: Of a line: what comes, and what goes.
_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

#: How long a child that was told to stop at once may take to close its log before its process is ended.
_LAST_WORDS: Final = 0.6
#: How long a process may take to end once it has said everything.
_GOODBYE: Final = 5.0
#: What of its output is kept, for when it dies without a word.
_OUTPUT_BYTES: Final = 4000


@contextmanager
def _unharmed(what: str) -> Iterator[None]:
    """Let whoever is told fail without the child, as a handler of an event may."""
    try:
        yield
    except Exception as error:
        logger.warning("%s cannot be shown: %r", what, error)


async def _is_read(reading: asyncio.Task[Any]) -> bool:
    """Give what is in the pipe the time to be read; the other end is closed."""
    await asyncio.wait([reading], timeout=_LAST_WORDS)
    if reading.done() and not reading.cancelled():
        reading.exception()  # seen: it says how the child ended, which is known
    return reading.done()


class _Token(CancellationToken):
    """Pass the wish to stop on to the other process."""

    def __init__(self, child: RemoteChild) -> None:
        super().__init__()
        self._child = child

    def request_graceful(self) -> bool:
        """Ask the child to stop after what it is doing."""
        is_new = super().request_graceful()
        if is_new:
            self._child.tell({"kind": "stop", "immediate": False})
        return is_new

    def request_immediate(self) -> bool:
        """Ask the child to stop at once."""
        is_new = super().request_immediate()
        if is_new:
            self._child.stop_at_once()
        return is_new


class RemoteChild:
    """A child session in another process, used as `Child` is."""

    def __init__(self, surroundings: Surroundings, origin: Origin, prepared: Prepared, *, is_saved: bool) -> None:
        self._surroundings, self._origin, self._prepared, self._is_saved = surroundings, origin, prepared, is_saved
        self._writer: asyncio.StreamWriter | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._output = Output(_OUTPUT_BYTES)
        self._result: Result | None = None
        self._reading: asyncio.Task[Result | None] | None = None
        self._is_stopped = asyncio.Event()
        self.cancellation: CancellationToken = _Token(self)
        #: What the child and all below it have cost, as far as it has told.
        self.spent: str | None = None
        #: What they had cost before this call, None for a child that is new.
        self.before: str | None = None

    async def cost(self) -> str | None:
        """Return what the child and all below it cost so far; None when nobody knows."""
        return self.spent

    async def run(self, task: Task) -> Result:
        """Start the process, have the task done and see that everything ends; raises as `Child.run` does."""
        identity = self._origin.facts.session_id
        folder = make_socket_folder("amplifier-", "s")
        server: asyncio.Server | None = None
        running: RunningCommand | None = None
        status = "crashed"
        try:
            met: asyncio.Future[_Ends] = asyncio.get_running_loop().create_future()
            server = await asyncio.start_unix_server(self._on_meeting(met), folder / "s")
            running = start(self._order(folder / "s"), self._output)
            return await self._converse(task, met, running, folder / "s")
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        except (OSError, StartError) as error:
            raise ChildFailedError(identity, f"the process of session {identity} cannot be run: {error}") from error
        finally:
            await run_to_end(self._close, server, running, folder)
            if self._result is None:
                # A process that was ended, or has died, could not close its log. In a thread: it may be a long one.
                own, blobs = self._origin.folder, self._origin.root_folder / "blobs"
                await run_to_end(asyncio.to_thread, end_left_log, own, blobs, status)

    def tell(self, frame: Frame) -> None:
        """Send something to the child; before it is there and after it is gone, nothing."""
        if self._writer is not None:
            write_frame(self._writer, frame)

    def stop_at_once(self) -> None:
        """Have the process ended, whether it is there yet or not; as long as it can speak, it closes its log before."""
        self.tell({"kind": "stop", "immediate": True})
        self._is_stopped.set()

    # -- parts --

    def _order(self, socket: Path) -> CommandSpec:
        # -P: a module in the folder of the project must not take the place of one of Python's.
        argv = [sys.executable, "-P", "-m", "amplifier_foundation.children.process", str(socket)]
        environment = environment_for(self._prepared.composed.plan, self._surroundings.environ)
        return CommandSpec(argv, self._prepared.project, environment)

    def _on_meeting(self, met: asyncio.Future[_Ends]) -> Any:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if met.done():
                writer.close()
                return
            met.set_result((reader, writer))

        return meet

    async def _converse(self, task: Task, met: asyncio.Future[_Ends], running: RunningCommand, socket: Path) -> Result:
        ended = asyncio.ensure_future(running.wait())
        try:
            await self._first_of(met, ended)
            if not met.done():
                running.check_start()
                raise self._died(running)
            _remove(socket)  # both ends are there: what is killed from now on leaves nothing behind
            reader, self._writer = met.result()  # nothing else may be told before the job
            self.tell(write_job(self._surroundings, self._origin, self._prepared, task, is_saved=self._is_saved))
            if self._origin.budget is not None:
                self._origin.budget.follow(lambda reason: self.tell({"kind": "used_up", "reason": reason}))
            if self.cancellation.is_cancelled:
                self.tell({"kind": "stop", "immediate": self.cancellation.is_immediate})
            # In a task of its own: what a child says that is told to stop, such as what it used, counts too.
            self._reading = asyncio.ensure_future(self._read(reader))
            await self._first_of(self._reading)
            if (result := self._reading.result()) is not None:
                return result
            await asyncio.wait([ended], timeout=_GOODBYE)
            raise self._died(running)
        finally:
            ended.cancel()
            if self._writer is None and met.done():
                met.result()[1].close()

    async def _first_of(self, *awaited: asyncio.Future[Any]) -> None:
        """Wait until one of several is done; raises CancelledError when the child is to stop at once before that."""
        stopped = asyncio.ensure_future(self._is_stopped.wait())
        try:
            await asyncio.wait([*awaited, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not any(one.done() for one in awaited):
            raise asyncio.CancelledError

    async def _read(self, reader: asyncio.StreamReader) -> Result | None:
        while (frame := await self._next(reader)) is not None:
            if (result := self._heed(frame)) is not None:
                return result
        return None

    async def _next(self, reader: asyncio.StreamReader) -> Frame | None:
        try:
            return await read_frame(reader)
        except ValueError as error:
            identity = self._origin.facts.session_id
            text = f"what the process of session {identity} says cannot be read: {error}"
            raise ChildFailedError(identity, text) from error

    def _heed(self, frame: Frame) -> Result | None:
        """Do what a frame says; return the result when it is one, raise when it says that there will be none."""
        kind, surroundings = frame.get("kind"), self._surroundings
        if kind == "used":
            self._absorb(frame["report"])
        elif kind == "cost":
            self.before, self.spent = frame["before"] or self.before, frame["cost_usd"] or self.spent
        elif kind == "event" and surroundings.on_child_event is not None:
            with _unharmed("what is told of a child"):
                surroundings.on_child_event(ChildFacts(*frame["facts"]), frame["event"], frame["data"])
        elif kind == "show" and surroundings.display_system is not None:
            with _unharmed("a message"):
                shown = surroundings.display_system.show_message(frame["message"], frame["level"], frame["source"])
                await_soon(shown, lambda error: logger.error("a message cannot be shown: %s", error, exc_info=error))
        elif kind == "reserve" and self._origin.budget is not None:
            self._absorb(frame["report"])
            self._see_to(self._reserve(frame, self._origin.budget))
        elif kind == "left" and self._origin.budget is not None:
            self._origin.budget.place_left()
        elif kind == "ask":
            self._see_to(self._answer(frame))
        elif kind == "cancelled":
            raise self._interrupted()
        elif kind == "failed":
            raise self._failure(frame)
        elif kind == "result":
            self._result = frame["result"]
            return self._result
        return None

    def _absorb(self, report: Mapping[str, Any]) -> None:
        """Count here what the child has used; until it reports its whole cost, what is new is added to it."""
        if (budget := self._origin.budget) is not None:
            before = budget.account.total
            budget.absorb(report)
            if more := (budget.account.total - before).known_cost:
                self.spent = str(Decimal(self.spent or 0) + more)

    def _see_to(self, work: Coroutine[Any, Any, None]) -> None:
        asking = asyncio.ensure_future(work)
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _reserve(self, frame: Frame, budget: SessionBudget) -> None:
        """Ask the budget here, and where this process comes from, for what the child is about to do."""
        try:
            reason = await budget.claim_for_process(frame["name"])
        except Exception as error:  # it waits for an answer: whatever is wrong is a no
            reason = f"the budget cannot be asked for: {type(error).__name__}: {error}"
        self.tell({"kind": "answer", "id": frame["id"], "answer": reason or ""})

    async def _answer(self, frame: Frame) -> None:
        """Put a request of the child, or of one below it, to the approval system here; whatever goes wrong is a no."""
        from amplifier_core import ApprovalRequest, ApprovalResponse

        facts = self._origin.facts
        try:
            request = ApprovalRequest.model_validate(frame["request"])
            if request.session_id in (None, facts.parent_id):  # a child does not ask in the name of its parent
                request.session_id = facts.session_id
            response = await put(self._surroundings.approval_system, request)
        except Exception as error:  # an approval system may fail in any way
            by = {"kind": "timeout" if isinstance(error, TimeoutError | ApprovalTimeoutError) else "failure"}
            response = ApprovalResponse(approved=False, reason=f"{type(error).__name__}: {error}", answered_by=by)
        self.tell({"kind": "answer", "id": frame["id"], "response": response.model_dump(mode="json")})

    def _interrupted(self) -> BaseException:
        """Return what it means that the child was stopped: a failure, unless somebody here wanted that."""
        if self.cancellation.is_cancelled:
            return asyncio.CancelledError()
        identity = self._origin.facts.session_id
        why = "by a signal, or by a module that raises KeyboardInterrupt"
        return ChildFailedError(identity, f"the session {identity} was interrupted in its own process, {why}")

    def _failure(self, frame: Frame) -> Exception:
        identity, code, text = self._origin.facts.session_id, frame.get("code"), str(frame.get("text"))
        failure: ChildError
        if code == ChildBusyError.code:
            return ChildBusyError(text)
        if code == ChildRefusedError.code:
            failure = ChildRefusedError(identity, [str(one) for one in frame.get("failures") or [text]])
        else:
            failure = ChildFailedError(identity, text)
        failure.metadata = dict(frame.get("metadata") or {})
        return failure

    def _died(self, running: RunningCommand) -> ChildFailedError:
        identity, status = self._origin.facts.session_id, running.outcome.returncode
        said = self._output.shown().text.strip()
        how = f"the process of session {identity} ended without an answer (exit status {status})"
        return ChildFailedError(identity, f"{how}: {said[-1000:]}" if said else how)

    async def _close(self, server: asyncio.Server | None, running: RunningCommand | None, folder: Path) -> None:
        """End the process, gently as long as it has something to say, and remove what was made for it."""
        if running is not None:
            await self._end(running)
        for asking in tuple(self._asking):
            asking.cancel()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if server is not None:
            server.close()
        _remove(folder / "s")

    async def _end(self, running: RunningCommand) -> None:
        if not running.is_over and not running.has_ended:
            if self._result is None:
                self.tell({"kind": "stop", "immediate": True})
            waiting = asyncio.ensure_future(running.wait())
            await asyncio.wait([waiting], timeout=_LAST_WORDS if self._result is None else _GOODBYE)
            waiting.cancel()
        await running.stop()
        if self._reading is not None and not await _is_read(self._reading):
            await cancel_and_wait(self._reading)


def _remove(socket: Path) -> None:
    """Remove a socket and the folder that was made for it, if they are there still."""
    socket.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        os.rmdir(socket.parent)
