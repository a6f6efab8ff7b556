"""Run a command in the sandbox with everything that is promised of commands outside.

Its supervisor runs inside too, next to it: so what outlives the command is known, it ends in the same stages, and the
exit code is the command's own. Nobody outside has to be trusted to end it: with the outermost process, which ends with
this one, all processes inside are gone.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from amplifier_kit.guard.processes import Order, Outcome, Output, Running, supervisor, to_end
from amplifier_kit.guard.processes import start as start_outside
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.sandbox import Walls


def start(order: Order, walls: Walls, stdout: Output, stderr: Output | None = None) -> Running:
    """Start a command, behind walls if there are any; as `amplifier_kit.guard.processes.start`."""
    if walls.argv:
        launcher = walls.before((), script=supervisor.__file__)
        order = replace(order, launcher=launcher, environment=walls.environment)
    return start_outside(order, stdout, stderr)


async def run(
    order: Order, walls: Walls, stdout: Output, stderr: Output | None = None, *, timeout: float | None
) -> Outcome:
    """Run a command to its end, behind walls if there are any; as `amplifier_kit.guard.processes.run`.

    Raises SandboxError when the walls cannot be put up.
    """
    running = start(order, walls, stdout, stderr)
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


def setup_problem(running: Running, output: Output) -> SandboxError | None:
    """Return, for a command that is over, an error with what was said when the walls could not be put up."""
    if not running.has_no_supervisor:
        return None
    said = output.shown().text.strip().splitlines()
    return SandboxError(f"the sandbox could not be set up: {said[0][:300] if said else 'no reason was given'}")
