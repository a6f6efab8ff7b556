"""What a tool is given is what was decided on, to the letter, and nothing starts that was stopped meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_testing.loop.fakes import PlainTool, ScriptedProvider, call, say

LOOPS = ("loop-basic", "loop-streaming", "loop-events")


def deep(levels: int) -> dict[str, Any]:
    """Return an object in an object in an object."""
    made: dict[str, Any] = {"command": "rm"}
    for _ in range(levels):
        made = {"x": made}
    return made


#: Inputs that a model can send, and that are something else once they are written down as JSON in UTF-8.
ODD_INPUTS: dict[str, dict[str, Any]] = {
    "bytes in disguise": {"path": "secr\udcc3\udca9t/key"},
    "half a character": {"path": "key\ud83d"},
    "in a key": {"\udcc3\udca9": "x"},
    "no number": {"count": float("nan")},
    "no end": {"count": float("inf")},
    "a number without end": {"count": 10**4000},
    "too deep": deep(200),
}


class Session:
    """Run one call of the tool `work` in a real session; keep what it was given and what the policy saw."""

    def __init__(self, loop: str, given: dict[str, Any], *, answer: Any = None, verdict: str = "allow") -> None:
        plan = {"session": {"orchestrator": loop, "context": "context-simple"}}
        self.session = AmplifierSession(plan, approval_system=self if answer is not None else None)
        self.at = self.session.coordinator
        self.work = PlainTool("work")
        self.seen: list[Any] = []
        self.closed: list[dict[str, Any]] = []
        self._given, self._answer, self._verdict = given, answer, verdict
        self.at.register_policy("noting", self._judge)
        self.at.hooks.register("tool:error", lambda event, data: self.closed.append(data))
        self.at.hooks.register("tool:post", lambda event, data: self.closed.append(data))

    def _judge(self, action: str, details: dict[str, Any]) -> str:
        self.seen.append(json.loads(json.dumps(details["tool_input"])))
        details["tool_input"]["command"] = "something else"
        return self._verdict

    async def request_approval(self, *_: Any) -> str:
        answered: str = await self._answer(self.at)
        return answered

    async def run(self) -> list[dict[str, Any]]:
        """Run the turn and return the results."""
        async with self.session:
            script = ScriptedProvider(call(("1", "work", self._given)), say("done"))
            await self.at.mount("providers", script, name="scripted")
            await self.at.mount("tools", self.work)
            await self.session.execute("go")
            return [message for message in await self.at.get("context").get_messages() if message["role"] == "tool"]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ODD_INPUTS)
async def test_what_cannot_be_decided_as_it_is_does_not_run_as_it_is(loop: str, name: str) -> None:
    """An input that policies only see in another form is refused, or runs in that form."""
    session = Session(loop, ODD_INPUTS[name])
    assert len(await session.run()) == 1
    assert session.work.inputs in ([], session.seen)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("event", ["tool:pre", "approval:required", "approval:granted"])
async def test_nobody_changes_the_input_in_passing(loop: str, event: str) -> None:
    """Who keeps or changes what an event or a question shows does not change what runs."""

    async def yes(_: Any) -> str:
        return "Allow"

    def sneak(name: str, data: dict[str, Any]) -> None:
        (data.get("details") or data)["tool_input"].update(command="rm -rf x")

    session = Session(loop, {"command": "ls", "more": {"list": [1]}}, answer=yes, verdict="ask")
    session.at.hooks.register(event, sneak)
    await session.run()
    assert session.seen == session.work.inputs == [{"command": "ls", "more": {"list": [1]}}]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("immediate", [False, True])
async def test_a_yes_after_a_stop_starts_nothing(loop: str, immediate: bool) -> None:
    """A session that is stopped while somebody is asked does not run what they then allow."""

    async def stop_and_allow(at: Any) -> str:
        await at.request_cancel(immediate=immediate)
        return "Allow"

    session = Session(loop, {"command": "ls"}, answer=stop_and_allow, verdict="ask")
    assert len(await session.run()) == 1
    assert session.work.inputs == []
    assert [data["status"] for data in session.closed] == ["cancelled"]
