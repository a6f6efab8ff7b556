"""Be the process of one child session: take its job from a socket, run it, say there what comes of it.

python -P -m amplifier_foundation.children.process SOCKET
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from amplifier_core.approval import ApprovalHandler
from amplifier_core.events import LLM_RESPONSE, TOOL_POST
from amplifier_foundation.children.child import Child, Surroundings
from amplifier_foundation.children.errors import ChildError
from amplifier_foundation.children.frames import Frame, read_frame, write_frame
from amplifier_foundation.children.job import given_trust, read_job
from amplifier_foundation.children.origin import ChildFacts
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.plan.import_path import hold
from amplifier_foundation.usage import HomeLine, SessionBudget
from amplifier_foundation.usage.home_line import Asked

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest, ApprovalResponse


class Line(ApprovalHandler):
    """The line to the parent's process: who asks, shows and tells here is answered, shown and told there."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._asked: dict[int, asyncio.Future[Frame]] = {}
        self._count = 0

    def send(self, frame: Frame) -> None:
        """Send a frame."""
        write_frame(self._writer, frame)

    async def flush(self) -> None:
        """Wait until everything is sent, or nobody listens any more."""
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except ConnectionError:
            pass  # there is nobody to tell

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Put a request to the approval system of the parent's process."""
        from amplifier_core import ApprovalResponse

        said = await self._asked_there({"kind": "ask", "request": request.model_dump(mode="json")})
        return ApprovalResponse.model_validate(said["response"])

    async def reserve(self, name: str, report: Mapping[str, Any]) -> str:
        """Tell what was used; return why the budget over there allows no other call, empty when it does."""
        return str((await self._asked_there({"kind": "reserve", "name": name, "report": report})).get("answer"))

    async def _asked_there(self, question: Frame) -> Frame:
        self._count += 1
        number = self._count
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        self.send({**question, "id": number})
        try:
            return await future
        finally:
            del self._asked[number]

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Show as the kernel shows, over there."""
        self.send({"kind": "show", "message": message, "level": level, "source": source})

    def on_event(self, facts: ChildFacts, event: str, data: dict[str, Any]) -> None:
        """Tell an event over there."""
        self.send({"kind": "event", "facts": list(facts), "event": event, "data": data})

    async def listen(self, stop: Any, budget: SessionBudget) -> None:
        """Heed what comes from the parent; when it is gone, stop at once."""
        while (frame := await read_frame(self._reader)) is not None:
            if frame.get("kind") == "answer" and frame.get("id") in self._asked:
                future = self._asked[frame["id"]]
                if not future.done():
                    future.set_result(frame)
            elif frame.get("kind") == "stop":
                stop(bool(frame.get("immediate")))
            elif frame.get("kind") == "used_up":
                budget.bar(str(frame.get("reason")))
        stop(True)


async def serve(path: str) -> int:
    """Run the child whose job waits at a socket; return the exit status of the process."""
    reader, writer = await asyncio.open_unix_connection(path)
    job = await read_frame(reader)
    if job is None:
        return 1
    line = Line(reader, writer)
    try:
        frame = await _run(job, line)
    except asyncio.CancelledError:
        frame = {"kind": "cancelled"}
    except FoundationError as error:
        frame = _failure(error)
    except Exception as error:
        frame = {"kind": "failed", "code": "child_failed", "text": f"{type(error).__name__}: {error}"}
    line.send(frame)
    await line.flush()
    return 0 if frame["kind"] == "result" else 1


async def _run(job: Mapping[str, Any], line: Line) -> Frame:
    origin, prepared, task = read_job(job)
    hold(prepared.site_folders)
    budget = SessionBudget(job["budget"], agent=origin.facts.agent)
    budget.account.prices.take(job.get("prices", {}))  # none, if the program was replaced while it ran
    surroundings = Surroundings(
        line if job["can_ask"] else None,
        line if job["can_show"] else None,
        _environ(),
        job["allow_missing_modules"],
        given_trust(job),
        line.on_event if job["is_observed"] else None,
    )
    saved = None
    if job["is_saved"]:
        from amplifier_foundation.sessions.resume import load_session

        saved = load_session(origin.folder)
    child = Child(surroundings, replace(origin, budget=budget), prepared, saved)
    work = asyncio.ensure_future(child.run(task))

    def stop(immediate: bool) -> None:
        (child.cancellation.request_immediate if immediate else child.cancellation.request_graceful)()
        if immediate:
            work.cancel()

    def send_use() -> None:
        line.send({"kind": "used", "report": budget.report()})

    def send_cost(cost: str | None) -> None:
        line.send({"kind": "cost", "cost_usd": cost, "before": child.before})

    async def report_cost(event: str, data: dict[str, Any]) -> None:
        send_cost(await child.cost())

    budget.home = HomeLine(
        # Others draw on a limit too, so what was left at the start is not enough to know.
        (lambda name: line.reserve(name, budget.report())) if budget.is_limited else _granted,
        lambda: line.send({"kind": "left"}),
        # At once, also for sessions below this one: the process may not live to report it later.
        send_use,
    )
    hooks = child.runtime.session.coordinator.hooks
    for event in (LLM_RESPONSE, TOOL_POST):
        hooks.register(event, report_cost, priority=1000, name="app-process")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop, True)
    listening = asyncio.ensure_future(line.listen(stop, budget))
    try:
        return {"kind": "result", "result": await work}
    finally:
        send_use()
        send_cost(child.spent)
        listening.cancel()


async def _granted(name: Asked) -> str:
    """Ask nobody where nothing is limited."""
    return ""


def _environ() -> Mapping[str, str]:
    import os

    return os.environ


def _failure(error: FoundationError) -> Frame:
    facts = {"code": error.code, "text": str(error), "failures": getattr(error, "failures", None)}
    return {"kind": "failed", **facts, "metadata": error.metadata if isinstance(error, ChildError) else {}}


if __name__ == "__main__":
    sys.exit(asyncio.run(serve(sys.argv[1])))
