"""Background jobs of the tool: started, inspected, stopped, and ended with the session."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from amplifier_kit.guard.processes.running_command import (
    CommandSpec,
    Outcome,
    RunningCommand,
    StartError,
    start,
    to_end,
)
from amplifier_kit.guard.sandbox.sandbox import SandboxSetup
from amplifier_module_tool_bash.output import OutputFolder, SavedOutput

#: Jobs that may run at the same time.
MOST_JOBS: Final = 32
#: Ended jobs that can still be inspected.
_MOST_ENDED: Final = 100


class Job:
    """One command in the background."""

    def __init__(
        self, command: str, running: RunningCommand, output: SavedOutput, pid: int, setup: SandboxSetup
    ) -> None:
        self.command = command
        self.output = output
        self.pid = pid
        #: Whether it was reported what the sandbox blocked.
        self.is_blocked_reported = False
        self._setup = setup
        self._running = running
        self._since = time.monotonic()
        self._seconds: float | None = None
        self._watching = asyncio.create_task(self._watch())

    @property
    def is_running(self) -> bool:
        """Whether any process of the job still runs."""
        return self._seconds is None

    @property
    def returncode(self) -> int | None:
        """Return the exit code of the command itself; None while it runs."""
        return self._running.outcome.returncode

    def describe(self) -> dict[str, Any]:
        """Return the status of the job with its output."""
        shown = self.output.shown()
        outcome = self._running.outcome
        status: dict[str, Any] = {
            "pid": self.pid,
            "status": "running" if self.is_running else "ended",
            "returncode": outcome.returncode,
            "seconds": round(time.monotonic() - self._since if self._seconds is None else self._seconds, 1),
            "stdout": shown.text,
            "output_total_bytes": shown.total,
        }
        if shown.path is not None:
            status["output_file"] = str(shown.path)
        return status

    async def stop(self) -> Outcome:
        """Stop the job and wait until all its processes have exited."""
        outcome = await to_end(self._running.stop())
        await asyncio.wait([self._watching])
        return outcome

    async def _watch(self) -> None:
        """Wait for the end of the job; stop it when the event loop is shut down."""
        try:
            await self._running.wait()
        except asyncio.CancelledError:
            await to_end(self._running.stop())
            raise
        finally:
            self._seconds = time.monotonic() - self._since
            self._setup.release()


class Jobs:
    """The background jobs of one session."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}

    @property
    def running(self) -> list[Job]:
        """Return the jobs that still run."""
        return [job for job in self._jobs.values() if job.is_running]

    def get(self, pid: int) -> Job | None:
        """Return a job by its process id, including recently ended ones."""
        return self._jobs.get(pid)

    async def start(
        self, command: str, spec: CommandSpec, setup: SandboxSetup, limit: int, folder: OutputFolder
    ) -> Job:
        """Start a job whose output goes to a file.

        Raises OSError when the file cannot be created, and StartError.
        """
        output = SavedOutput(limit, folder, name="job", is_always_kept=True)
        try:
            running = start(spec, output)
        except BaseException:
            output.close()
            raise
        try:
            pid = await running.started()
        except BaseException as error:
            await to_end(running.stop())
            if isinstance(error, StartError):
                running.check_start()  # now with the reason, if the sandbox has failed
            raise
        job = Job(command, running, output, pid, setup)
        self._jobs.pop(pid, None)
        self._jobs[pid] = job
        self._forget()
        return job

    async def stop(self) -> list[int]:
        """Stop all jobs; return the processes that could not be stopped."""
        outcomes = await asyncio.gather(*(job.stop() for job in self.running))
        return [pid for outcome in outcomes for pid in outcome.alive]

    def _forget(self) -> None:
        ended = [pid for pid, job in self._jobs.items() if not job.is_running]
        for pid in ended[:-_MOST_ENDED]:
            del self._jobs[pid]
