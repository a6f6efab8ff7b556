"""A tree whose process is killed goes on: what was finished is not done again, what was not goes on by its id."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

DRIVER = """
import asyncio
import sys
from pathlib import Path

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, prepare
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.sessions.runtime import SessionRuntime


async def main(home, project, bundle):
    prepared = await prepare(Options(Home(Path(home)), Path(project), bundle=bundle, offline=True))
    async with SessionRuntime(prepared, session_id="killed-root", spawner=Spawner()) as runtime:
        await runtime.execute("Go.")


asyncio.run(main(*sys.argv[1:]))
"""
SCENARIO = """
turns:
  - tool_calls:
      - {id: quick, name: delegate, arguments: {agent: explorer, instruction: be quick, context_depth: none}}
      - {id: slow, name: delegate, arguments: {agent: reviewer, instruction: be slow, context_depth: none}}
  - text: unreachable
agents:
  explorer:
    - {text: the quick answer}
  reviewer:
    - {delay_ms: 600000, text: never}
"""
RESUMED = """
turns:
  - expect: {contains: [the quick answer, SLOW]}
    tool_calls: [{id: again, name: delegate, arguments: {session_id: SLOW, instruction: go on}}]
  - expect: {last_role: tool, contains: the slow answer}
    text: All there.
agents:
  explorer:
    - {error: {type: InvalidRequestError, message: it was run again}}
  reviewer:
    - {expect: {system_contains: You review a change, contains: be slow}, text: the slow answer}
"""


def child_of(folder: Path, agent: str) -> Path:
    """Return the folder of the only child that an agent has."""
    [found] = folder.parent.glob(f"*_amplifier-{agent}")
    return found


async def killed_at_work(workshop: Any, options: Any) -> Path:
    """Run the tree in a process of its own, and kill it when one child has ended and the other has not."""
    folder: Path = workshop.home.sessions(workshop.project) / "killed-root"
    arguments = [str(workshop.home.path), str(workshop.project), options.bundle]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DRIVER, *arguments, start_new_session=True)

    def has_logged(event: str, session: str) -> bool:
        logs = folder.parent.glob(f"{session}/events.jsonl")  # a child that is slow has none yet
        return any(event in log.read_text(encoding="utf-8") for log in logs)

    async def until_half_done() -> None:
        while not (
            has_logged("delegate:agent_completed", folder.name) and has_logged("llm:request", "*_amplifier-reviewer")
        ):
            assert process.returncode is None
            await asyncio.sleep(0.05)

    try:
        await asyncio.wait_for(until_half_done(), timeout=60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return folder


async def test_a_killed_tree_goes_on(workshop: Any, ran_in: Any) -> None:
    """The parent has the answer of the child that was done, is told the id of the other, and lets it go on."""
    folder = await killed_at_work(workshop, workshop.options(SCENARIO))
    slow, quick = child_of(folder, "reviewer"), child_of(folder, "explorer")
    before = (quick / "events.jsonl").read_bytes()
    ran = await workshop.go_on(ran_in(folder), RESUMED.replace("SLOW", slow.name), "Where were we?")
    assert ran.answer == "All there."
    assert (quick / "events.jsonl").read_bytes() == before
    assert [data["sub_session_id"] for data in ran.of("delegate:agent_resumed")] == [slow.name]
