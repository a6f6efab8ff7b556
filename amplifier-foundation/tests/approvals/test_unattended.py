"""A session that runs alone: what only a person can decide waits, and runs once when somebody has decided."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ApprovalRequest, HookResult
from amplifier_foundation.approvals.approvers import Unattended
from amplifier_foundation.approvals.pending_calls import PendingCall, PendingCalls, PendingCallsError, extra_details
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.log.reader import read_log
from amplifier_testing.loop.fakes import PlainTool

_MAKE = {"id": "c1", "name": "run", "arguments": {"command": "make"}}
_ASK_THEN_DONE: list[dict[str, Any]] = [{"tool_calls": [_MAKE]}, {"text": "not asked for"}]


class _World:
    """A project, its sessions, and tools that remember what they were given."""

    def __init__(self, tmp_path: Path) -> None:
        self.project = tmp_path
        self.run_tool = PlainTool("run", lambda given: f"ran {given['command']}", action="process.exec")
        self.look_tool = PlainTool("look", action="filesystem.read")
        self.unattended: Unattended
        self.runtime: SessionRuntime
        self.on_start: Callable[[Any], None] = lambda coordinator: None

    @property
    def waiting(self) -> PendingCalls:
        return PendingCalls(self.runtime.folder)

    async def execute(
        self, turns: Sequence[dict[str, Any]], prompt: str = "go", *, ready: Sequence[PendingCall] = (), **env: str
    ) -> str:
        """Run a prompt in the session, a new one the first time; `ready` are calls that waited."""
        script = self.project / "scenario.json"
        script.write_text(json.dumps({"turns": list(turns)}), encoding="utf-8")
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
            "hooks": [{"module": "hooks-logging"}],
        }
        prepared = Prepared.from_plan(plan, self.project / "home", self.project)
        before = getattr(self, "runtime", None)
        saved = load_session(before.folder) if before is not None else None
        self.runtime = runtime = SessionRuntime(prepared, saved=saved, environ=env)
        self.unattended = Unattended(runtime.pending_calls, lambda value: runtime.redactor.scrub(value).value)
        coordinator = runtime.session.coordinator
        self.unattended.connect(coordinator)
        coordinator.approval_system = self.unattended
        self.unattended.expect(ready)
        self.on_start(coordinator)
        async with runtime:
            for tool in (self.run_tool, self.look_tool):
                await coordinator.mount("tools", tool)
            return str(await runtime.execute(prompt, ready))

    async def answered(self, answer: Any = "allow", note: str = "", turns: Any = ({"text": "on we go"},)) -> str:
        """Answer all that waits, as another process would, and let the session go on."""
        self.waiting.answer([], answer, note, "somebody")
        return await self.execute(turns, "", ready=self.waiting.list())

    def data(self, event: str) -> list[dict[str, Any]]:
        return [json.loads(line.raw)["data"] for line in read_log(self.runtime.folder) if line.event == event]

    @property
    def transcript(self) -> str:
        return (self.runtime.folder / "transcript.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def world(tmp_path: Path) -> _World:
    """Return a project with a scripted model and two tools."""
    return _World(tmp_path)


async def test_call_waits_and_the_model_is_not_asked_again(world: _World) -> None:
    """A call that must be allowed waits with its question; the model, which cannot know yet, is asked no more."""
    await world.execute(_ASK_THEN_DONE)
    (call,) = world.waiting.list()
    assert (call.tool_call_id, call.tool_name, call.tool_input) == ("c1", "run", {"command": "make"})
    assert [question.action for question in call.questions] == ["process.exec"]
    assert call.questions[0].prompt.startswith("Allow process.exec? ")
    assert (world.unattended.must_stop, world.run_tool.inputs) == (True, [])
    assert len(world.data("llm:response")) == 1
    (told,) = world.data("approval:waiting")
    assert (told["waiting_id"], told["tool_input"]) == (call.id, {"command": "make"})


async def test_allowed_call_runs_once_with_its_input(world: _World) -> None:
    """An allowed call runs with exactly its input, once, the model reads its result, and the log says who and when."""
    await world.execute(_ASK_THEN_DONE)
    expected = {"text": "on we go", "expect": {"last_role": "user", "contains": ["ran make", "The call c1"]}}
    assert await world.answered(turns=[expected]) == "on we go"
    assert world.run_tool.inputs == [{"command": "make"}]
    assert world.waiting.list() == ()
    assert not world.unattended.must_stop
    (answered,) = world.data("approval:answered")
    assert (answered["answer"], answered["by"], answered["tool_call_id"]) == ("allow", "somebody", "c1")
    assert answered["at"].startswith("20")
    (granted,) = world.data("approval:granted")
    assert (granted["source"], granted["details"]["tool_input"]) == ("approval_system", {"command": "make"})


async def test_denied_call_does_not_run(world: _World) -> None:
    """A denied call does not run, the model reads why, and the log says who."""
    await world.execute(_ASK_THEN_DONE)
    expected = {"text": "pity", "expect": {"contains": ["was not allowed: use tox", "It has not run."]}}
    assert await world.answered("deny", "use tox", [expected]) == "pity"
    assert world.run_tool.inputs == []
    (answered,) = world.data("approval:answered")
    assert (answered["answer"], answered["reason"], answered["by"]) == ("deny", "use tox", "somebody")
    assert world.data("approval:granted") == []


async def test_answer_counts_once(world: _World) -> None:
    """The same call again, with the same id and input, is asked about again: one answer allows one run."""
    await world.execute(_ASK_THEN_DONE)
    await world.answered(turns=[{"tool_calls": [_MAKE]}, {"text": "no"}])
    assert world.run_tool.inputs == [{"command": "make"}]
    (call,) = world.waiting.list()
    assert call.answer is None
    await world.answered()
    assert len(world.run_tool.inputs) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"id": "c1", "name": "run", "arguments": {"command": "make clean"}},
        {"id": "c1", "name": "run", "arguments": {"command": "make", "more": None}},
        {"id": "c2", "name": "run", "arguments": {"command": "make"}},
    ],
)
async def test_answer_is_for_one_call_only(world: _World, other: dict[str, Any]) -> None:
    """Another input or another call is asked about, whatever was allowed before."""
    await world.execute(_ASK_THEN_DONE)
    world.waiting.answer([], "allow")
    ready = world.waiting.list()
    world.waiting.take(ready)
    # The answer is known, and the model calls something else before the answered call has run.
    world.on_start = lambda coordinator: world.unattended.expect(ready)
    await world.execute([{"tool_calls": [other]}, {"text": "no"}])
    assert world.run_tool.inputs == []
    (call,) = world.waiting.list()
    assert (call.tool_input, call.answer) == (other["arguments"], None)


def _rewriting(command: str) -> Callable[[Any], None]:
    def rewrite(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": command}})

    return lambda coordinator: coordinator.hooks.register("tool:pre", rewrite, name="rewrite")


async def test_input_that_a_hook_changes_meanwhile(world: _World) -> None:
    """A hook that changes an allowed input, when the call runs, brings the question back for the changed one."""
    await world.execute(_ASK_THEN_DONE)

    world.on_start = _rewriting("make evil")
    await world.answered()
    assert world.run_tool.inputs == []
    (call,) = world.waiting.list()
    assert (call.tool_input, call.answer) == ({"command": "make evil"}, None)


async def test_input_that_a_hook_changes_waits_as_changed(world: _World) -> None:
    """What waits is what would run: the input as hooks have left it."""
    world.on_start = _rewriting("make -n")
    await world.execute(_ASK_THEN_DONE)
    (call,) = world.waiting.list()
    assert call.tool_input == {"command": "make -n"}
    await world.answered()
    assert world.run_tool.inputs == [{"command": "make -n"}]


async def test_hook_that_asks_and_a_rule_that_asks(world: _World) -> None:
    """A hook's own question waits as the rule's does; the call runs when both are answered, and one no is enough."""
    asking = HookResult(action="ask_user", approval_prompt="Really?", approval_options=["Allow once", "Deny"])
    world.on_start = lambda coordinator: coordinator.hooks.register("tool:pre", lambda *_: asking, name="asking")
    await world.execute(_ASK_THEN_DONE)
    (call,) = world.waiting.list()
    assert [(one.prompt, one.action) for one in call.questions] == [("Really?", "hook.ask")]
    await world.answered()
    assert world.run_tool.inputs == []
    (call,) = world.waiting.list()
    assert [one.answer for one in call.questions] == ["allow", None]
    assert call.answer is None
    await world.answered()
    assert world.run_tool.inputs == [{"command": "make"}]
    assert world.waiting.list() == ()


async def test_answer_is_for_the_hook_and_the_event_that_asked(world: _World) -> None:
    """A hook's request is recognised by who asks on which event; an approval covers the text that was shown."""
    prompts = ["Deploy to staging?", "Deploy to production?"]

    def ask(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="ask_user", approval_prompt=prompts[0])

    world.on_start = lambda coordinator: coordinator.hooks.register("tool:pre", ask, name="asking")
    await world.execute(_ASK_THEN_DONE)
    (question,) = world.waiting.list()[0].questions
    assert question.key == ("hook.ask", "", "orchestrator", "tool:pre")
    del prompts[0]
    await world.answered()
    assert world.run_tool.inputs == []
    (call,) = world.waiting.list()
    assert [(one.prompt, one.answer) for one in call.questions] == [("Deploy to production?", None)]


async def test_module_that_asks_several_questions_about_a_call(world: _World) -> None:
    """Each question of a module is answered once; the answer to one does not replace that to another."""

    def connect(coordinator: Any) -> None:
        providers: list[Any] = []

        async def on_call(event: str, data: dict[str, Any]) -> HookResult:
            for action, host in (("exec", "a"), ("network", "a"), ("network", "b")):
                request = ApprovalRequest(
                    tool_name=data["tool_name"], action=action, risk_level="high", details={"host": host}
                )
                if not (await providers[0].request_approval(request)).approved:
                    return HookResult(action="deny", reason="not approved")
            return HookResult(action="continue")

        coordinator.register_capability("approval.register_provider", providers.append)
        coordinator.hooks.register("tool:pre", on_call, name="module")

    world.on_start = connect
    await world.execute(_ASK_THEN_DONE)
    for number in range(3):
        (call,) = world.waiting.list()
        assert [one.answer for one in call.questions] == [*["allow"] * number, None]
        await world.answered()
    assert world.run_tool.inputs == [{"command": "make"}]
    assert world.waiting.list() == ()


async def test_tool_that_asks_in_the_same_words(world: _World) -> None:
    """A tool that finds out where its path leads asks again in the same words: that is another question."""

    async def write(given: dict[str, Any]) -> str:
        place = {"tool_name": "write", "tool_input": given, "tool_call_id": "c1", "path": "other.txt"}
        allowed = await world.runtime.session.coordinator.authorize("filesystem.write", place)
        return "written" if allowed else "not written"

    world.run_tool = PlainTool("write", write, action="filesystem.write")
    call = {"id": "c1", "name": "write", "arguments": {"path": "link.txt"}}
    await world.execute([{"tool_calls": [call]}, {"text": "no"}])
    await world.answered()
    (waiting,) = world.waiting.list()
    assert [(one.answer, one.about) for one in waiting.questions] == [("allow", ""), (None, '{"path": "other.txt"}')]
    assert waiting.questions[0].prompt == waiting.questions[1].prompt
    assert "not written" in world.transcript
    await world.answered()
    assert world.waiting.list() == ()
    assert [data["details"].get("path") for data in world.data("approval:granted")] == [None, None, "other.txt"]


async def test_question_that_is_about_no_call(world: _World) -> None:
    """A hook that asks about the prompt cannot wait: it is refused and said, and nothing is written down."""
    asking = HookResult(action="ask_user", approval_prompt="Say that?")
    world.on_start = lambda coordinator: coordinator.hooks.register("prompt:submit", lambda *_: asking, name="asking")
    await world.execute([{"text": "no"}])
    assert world.unattended.must_stop
    assert [said.startswith("Say that?") for said in world.unattended.refused] == [True]
    assert world.waiting.list() == ()


async def test_calls_beside_it_run_and_are_not_repeated(world: _World) -> None:
    """The other calls of an answer run to their end, once, and their results stay."""
    look = {"id": "c2", "name": "look", "arguments": {"path": "a.txt"}}
    clean = {"id": "c3", "name": "run", "arguments": {"command": "make clean"}}
    await world.execute([{"tool_calls": [_MAKE, look, clean]}, {"text": "no"}])
    assert world.look_tool.inputs == [{"path": "a.txt"}]
    assert {call.tool_call_id for call in world.waiting.list()} == {"c1", "c3"}
    (first, _) = sorted(world.waiting.list(), key=lambda call: call.tool_call_id)
    world.waiting.answer([first.id], "allow")
    await world.execute([{"text": "on"}], "", ready=[call for call in world.waiting.list() if call.answer])
    assert (world.look_tool.inputs, world.run_tool.inputs) == ([{"path": "a.txt"}], [{"command": "make"}])
    assert [call.tool_call_id for call in world.waiting.list()] == ["c3"]
    assert "look done" in world.transcript


async def test_same_call_id_twice(world: _World) -> None:
    """Two calls that share their id, by a careless model, are told apart by their input."""
    await world.execute([{"tool_calls": [_MAKE]}, {"text": "no"}])
    await world.execute([{"tool_calls": [{**_MAKE, "arguments": {"command": "tox"}}]}, {"text": "no"}])
    assert len(world.waiting.list()) == 2
    await world.answered(turns=[{"text": "on", "expect": {"contains": ["ran make", "ran tox"]}}])
    assert world.run_tool.inputs == [{"command": "make"}, {"command": "tox"}]


async def test_secret_is_not_written_down(world: _World) -> None:
    """A call whose input holds a secret is refused and said, without the secret; no file has it."""
    secret = "sk-proj-" + "s3cr3tvalue" * 3
    call = {**_MAKE, "arguments": {"command": f"curl -H {secret}"}}
    await world.execute([{"tool_calls": [call]}, {"text": "no"}], API_KEY=secret)
    assert world.unattended.must_stop
    (said,) = world.unattended.refused
    assert "secret" in said
    assert secret not in said
    assert (world.waiting.list(), world.run_tool.inputs) == ((), [])
    for file in world.runtime.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file


async def test_secret_in_the_question(world: _World) -> None:
    """A hook's question with a secret in it is neither written down nor said with it."""
    secret = "sk-proj-" + "s3cr3tvalue" * 3
    asking = HookResult(action="ask_user", approval_prompt=f"Send {secret}?")
    world.on_start = lambda coordinator: coordinator.hooks.register("tool:pre", lambda *_: asking, name="asking")
    await world.execute(_ASK_THEN_DONE, API_KEY=secret)
    assert world.waiting.list() == ()
    assert secret not in str(world.unattended.refused)
    assert world.unattended.must_stop


@pytest.mark.parametrize("place", ["file", "lock"])
async def test_calls_that_cannot_be_kept_are_said(world: _World, place: str) -> None:
    """Where nothing can be written the call is refused, the reason is said, and the run stops."""

    def block(coordinator: Any) -> None:
        name = {"file": "waiting-calls.json", "lock": "waiting-calls.lock"}[place]
        (world.runtime.folder / name).mkdir(parents=True)

    world.on_start = block
    await world.execute(_ASK_THEN_DONE)
    assert (world.unattended.must_stop, world.run_tool.inputs) == (True, [])
    assert "cannot be stored" in world.unattended.refused[0]
    assert "the call cannot wait" in world.transcript


async def test_rule_that_denies_by_then_denies(world: _World) -> None:
    """A recorded yes does not overrule a rule that was written meanwhile."""
    await world.execute(_ASK_THEN_DONE)
    policy = world.project / "home" / "policy.yaml"
    policy.write_text("rules: [{verdict: deny, command: make, reason: not today}]\n", encoding="utf-8")
    await world.answered(turns=[{"text": "pity", "expect": {"contains": "not today"}}])
    assert world.run_tool.inputs == []
    assert [data["source"] for data in world.data("approval:denied")][-1] == "rules"


async def test_calls_that_cannot_be_taken_do_not_run(world: _World) -> None:
    """A call that cannot be crossed off the list, because the file broke meanwhile, does not run."""
    await world.execute(_ASK_THEN_DONE)
    world.waiting.answer([], "allow")
    ready = world.waiting.list()
    world.waiting.path.write_text("{", encoding="utf-8")
    with pytest.raises(PendingCallsError):
        await world.execute([{"text": "on"}], "", ready=ready)
    assert world.run_tool.inputs == []


async def test_calls_that_another_process_took_do_not_run(world: _World) -> None:
    """A call that somebody else has crossed off the list since it was read does not run here."""
    await world.execute(_ASK_THEN_DONE)
    world.waiting.answer([], "allow")
    ready = world.waiting.list()
    world.waiting.take(ready)
    await world.execute([{"text": "on", "expect": {"contains": "is no longer pending"}}], "", ready=ready)
    assert world.run_tool.inputs == []


async def test_cancelled_session_leaves_the_rest_waiting(world: _World) -> None:
    """What is not reached any more when the session is stopped goes on waiting."""
    clean = {"id": "c2", "name": "run", "arguments": {"command": "make clean"}}
    await world.execute([{"tool_calls": [_MAKE, clean]}, {"text": "no"}])

    def stop(given: dict[str, Any]) -> str:
        world.runtime.session.coordinator.cancellation.request_graceful()
        return "ran"

    world.run_tool = PlainTool("run", stop, action="process.exec")
    await world.answered()
    assert len(world.run_tool.inputs) == 1
    (call,) = world.waiting.list()
    assert call.tool_input != world.run_tool.inputs[0]
    assert call.answer == "allow"


async def test_result_survives_a_model_that_fails(world: _World) -> None:
    """When the model fails after a call has run, what came of the call is in the conversation."""
    await world.execute(_ASK_THEN_DONE)
    with pytest.raises(Exception, match="no such account"):
        await world.answered(turns=[{"error": {"type": "AuthenticationError", "message": "no such account"}}])
    assert world.run_tool.inputs == [{"command": "make"}]
    assert "ran make" in world.transcript


_CRASH = """\
import asyncio, json, os, sys
from pathlib import Path
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.approvals.approvers import Unattended
from amplifier_testing.loop.fakes import PlainTool
project, folder = Path(sys.argv[1]), Path(sys.argv[2])
def crash(given):
    with open(project / "ran", "a", encoding="utf-8") as file:
        file.write(given["command"])
    os._exit(9)
async def main():
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [{"module": "provider-mock"}], "hooks": [{"module": "hooks-logging"}]}
    runtime = SessionRuntime(Prepared.from_plan(plan, project / "home", project), saved=load_session(folder))
    ready = runtime.pending_calls.list()
    unattended = Unattended(runtime.pending_calls, lambda value: value)
    unattended.connect(runtime.session.coordinator)
    runtime.session.coordinator.approval_system = unattended
    unattended.expect(ready)
    async with runtime:
        await runtime.session.coordinator.mount("tools", PlainTool("run", crash, action="process.exec"))
        await runtime.execute("", ready)
asyncio.run(main())
"""


async def test_crash_between_take_and_result(world: _World) -> None:
    """A process that dies while the call runs leaves no call behind: it has run at most once, and never runs again."""
    await world.execute(_ASK_THEN_DONE)
    world.waiting.answer([], "allow")
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _CRASH, str(world.project), str(world.runtime.folder)],
        env={**os.environ, "HOME": str(world.project)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert died.returncode == 9, died.stderr.decode()
    assert (world.project / "ran").read_text(encoding="utf-8") == "make"
    assert world.waiting.list() == ()
    await world.execute([{"text": "on"}], "go on")
    assert world.run_tool.inputs == []
    assert (world.project / "ran").read_text(encoding="utf-8") == "make"


async def test_question_of_a_child_does_not_let_the_call_wait_that_started_it(world: _World) -> None:
    """A child asks inside the call of its parent; that call does not wait for it, since a yes would allow anything."""
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}

    async def spawn(given: dict[str, Any]) -> str:
        child = AmplifierSession(plan, approval_system=world.unattended).coordinator
        child.register_policy("rules", lambda action, details: ("ask", "because"))
        with child.span("tool:bash"):
            return str((await child.authorize("process.exec", {"tool_name": "bash"})).granted)

    world.look_tool = PlainTool("look", spawn, action="filesystem.read")
    calls = [{"id": "c1", "name": "look", "arguments": {"path": "."}}]
    await world.execute([{"tool_calls": calls}, {"text": "not asked for"}])
    assert world.waiting.list() == ()
    assert world.unattended.refused == ["Allow process.exec? because (asked by an agent, whose calls cannot wait)"]


def test_the_folder_of_a_tool_is_not_part_of_the_question() -> None:
    """A call that waits is the same one, and holds no secret, whatever the folder is called that its tool runs in."""
    call = {"tool_name": "bash", "tool_input": {"command": "ls"}, "tool_call_id": "c1"}
    assert extra_details({**call, "working_dir": "/place"}) == ""
    assert extra_details({**call, "working_dir": "/place", "host": "example.com"}) == '{"host": "example.com"}'
