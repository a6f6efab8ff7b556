"""A tree that is killed while a child has its second task goes on: what the child has finished is not done again."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.children.results import child_id
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime

_CHILD = child_id("the-root", "first", "explorer")

#: A program that runs the tree and kills itself at an event of the root.
_PROGRAM = """
import asyncio, json, os, signal, sys
from pathlib import Path
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.sessions.runtime import SessionRuntime

job = json.loads(sys.argv[1])

async def main():
    prepared = Prepared.from_plan(job["plan"], Path(job["home"]), Path(job["project"]), name="b")
    async with SessionRuntime(prepared, session_id="the-root", environ={}, spawner=Spawner()) as runtime:
        await runtime.execute("Once.")
        script = Path(job["plan"]["providers"][0]["config"]["scenario"])
        script.write_text(script.read_text().replace("It is A.", "It is B."))  # to the child, which is made anew
        runtime.session.coordinator.hooks.register(job["event"], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        await runtime.execute("Twice.")

asyncio.run(main())
"""


def _kill_at(tree: Any, event: str, **arguments: str) -> None:
    """Run a tree whose child has a second task, and kill it at an event."""
    first = {"agent": "explorer", "instruction": "What is A?", "context_depth": "none"}
    second = {"session_id": _CHILD, "instruction": "What is B?", **arguments}
    turns = [
        {"tool_calls": [{"name": "delegate", "arguments": first, "id": "first"}]},
        {"text": "A it is."},
        {"tool_calls": [{"name": "delegate", "arguments": second, "id": "second"}]},
    ]
    tree.script(turns, {"explorer": [{"text": "It is A."}]})
    tree.plan["tools"] = [{"module": "tool-delegate"}]
    (tree.home / "policy.yaml").write_text("rules:\n  - {action: session.spawn, verdict: allow}\n", encoding="utf-8")
    job = {"plan": tree.plan, "home": str(tree.home), "project": str(tree.project), "event": event}
    done = subprocess.run([sys.executable, "-c", _PROGRAM, json.dumps(job)], check=False)
    assert done.returncode == -signal.SIGKILL


def _told(tree: Any) -> str:
    """Return what a model that goes on reads of the call that was lost."""
    runtime = SessionRuntime(
        tree.prepared(), saved=load_session(tree.place / "the-root"), environ={}, spawner=Spawner()
    )
    assert runtime.saved is not None
    [lost] = [message for message in runtime.saved.messages if message.get("tool_call_id") == "second"]
    return str(lost["content"])


@pytest.mark.parametrize("depth", ["none", "recent"])
def test_what_a_child_that_went_on_has_answered_is_the_result_of_the_call(tree: Any, depth: str) -> None:
    """The model reads the answer and need not ask again, however much of the conversation the child was told."""
    _kill_at(tree, "delegate:agent_completed", context_depth=depth)
    answer = json.loads(_told(tree))
    assert (answer["response"], answer["session_id"]) == ("It is B.", _CHILD)


@pytest.mark.parametrize("depth", ["none", "recent"])
def test_an_answer_that_was_not_kept_is_found_in_the_conversation_of_the_child(tree: Any, depth: str) -> None:
    """A process that dies between the answer and the note of it costs no second run."""
    _kill_at(tree, "delegate:agent_completed", context_depth=depth)
    _forget_last_result(tree.place / _CHILD / "results.json")
    assert json.loads(_told(tree))["response"] == "It is B."


def _forget_last_result(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert len(content["results"]) == 2
    content["results"].popitem()
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("instruction", ["What is B?", "What is A?"])
def test_a_child_that_was_to_go_on_and_has_not_is_named(tree: Any, instruction: str) -> None:
    """What it answered to its first task is no answer to the second, even if that is asked in the same words."""
    _kill_at(tree, "delegate:agent_resumed", instruction=instruction)
    told = _told(tree)
    assert "It is A." not in told
    assert _CHILD in told
    assert "not done" in told
