"""Run a command in the sandbox, with the same guarantees as outside.

Its supervisor runs inside too: so leftover processes are known, the command ends in the same stages, and the exit code
is the command's own. All processes inside end with the outermost one, which ends with this process.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from amplifier_kit.guard.processes import CommandSpec, Outcome, Output, RunningCommand, supervisor, to_end
from amplifier_kit.guard.processes import start as start_outside
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import SandboxSetup


def start(order: CommandSpec, setup: SandboxSetup, stdout: Output, stderr: Output | None = None) -> RunningCommand:
    """Start a command like `amplifier_kit.guard.processes.start`, inside the sandbox if there is one."""
    if setup.argv:
        launcher = setup.before((), script=supervisor.__file__)
        order = replace(order, launcher=launcher, environment=setup.environment)
    return start_outside(order, stdout, stderr)


async def run(
    order: CommandSpec, setup: SandboxSetup, stdout: Output, stderr: Output | None = None, *, timeout: float | None
) -> Outcome:
    """Run a command like `amplifier_kit.guard.processes.run`, inside the sandbox if there is one.

    Raises SandboxError when the sandbox cannot be set up.
    """
    running = start(order, setup, stdout, stderr)
    waiting = asyncio.ensure_future(running.wait())
    try:
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        if done:
            running.check_start()
            if problem := setup_problem(running, stderr or stdout):
                raise problem
            return waiting.result()
        outcome = await to_end(running.stop())
        return outcome._replace(is_timed_out=True)
    finally:
        waiting.cancel()
        if not running.is_over:
            await to_end(running.stop())


def setup_problem(running: RunningCommand, output: Output) -> SandboxError | None:
    """Return the error of a command that ended because its sandbox could not be set up, None for others."""
    if not running.has_no_supervisor:
        return None
    said = output.shown().text.strip().splitlines()
    return SandboxError(f"the sandbox could not be set up: {said[0][:300] if said else 'no reason was given'}")
