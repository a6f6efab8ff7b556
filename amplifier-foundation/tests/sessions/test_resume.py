"""A session on disk, taken up again: nothing of its conversation is lost, doubled or made up."""

import asyncio
import json
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.events import ALL_EVENTS
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.prompt.user_input import UserInput
from amplifier_foundation.sessions.metadata import update_metadata
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_foundation.sessions.resume import SavedSession, load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.tool_calls import run_calls
from amplifier_kit.engine.pairing import check_pairing
from amplifier_kit.log.files import SessionLogBusy
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.writer import SessionLog

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"responses": ["The answer."]}}],
    "hooks": [{"module": "hooks-logging"}],
}
#: A context as other people write them: it knows neither positions nor factories.
FOREIGN = """\
class Context:
    def __init__(self):
        self.messages = []

    async def add_message(self, message):
        self.messages.append(dict(message))

    async def get_messages(self):
        return list(self.messages)

    async def set_messages(self, messages):
        self.messages = [dict(message) for message in messages]

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)

    async def clear(self):
        self.messages = []


async def mount(coordinator, config=None):
    await coordinator.mount("context", Context())
"""


def _prepared(tmp_path: Path, context: str = "context-simple", **more: Any) -> Prepared:
    plan = {**PLAN, "session": {**PLAN["session"], "context": {"module": context}}}
    return replace(Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b", instruction="Be brief."), **more)


def _foreign(tmp_path: Path) -> Prepared:
    """Return a session whose context is a module of its own; a process loads a package once, so its name is new."""
    name = f"context-x{uuid.uuid4().hex[:8]}"
    package = tmp_path / name / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FOREIGN)
    return _prepared(tmp_path, name, modules={name: tmp_path / name})


class Allowed:
    """Let every tool run."""

    async def request_approval(self, *_: Any) -> str:
        return "Allow once"


async def _run(prepared: Prepared, *prompts: UserInput | str, saved: SavedSession | None = None) -> Path:
    async with SessionRuntime(prepared, saved=saved, approval_system=Allowed(), environ={}) as runtime:
        for prompt in prompts:
            await runtime.execute(prompt)
    return runtime.folder


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]


def _words(messages: list[dict[str, Any]]) -> list[str]:
    texts = [
        message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
        for message in messages
    ]
    return [f"{message['role']}: {text}" for message, text in zip(messages, texts, strict=True)]


def _metadata(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "metadata.json").read_text())
    return data


TWO_TURNS = ["user: one", "assistant: The answer.", "user: two", "assistant: The answer."]


@pytest.mark.parametrize("kind", ["simple", "persistent", "foreign"])
async def test_a_session_goes_on_with_any_context(tmp_path: Path, kind: str) -> None:
    """With every kind of context each message is on disk once, in order, however often the session is resumed."""
    prepared = _foreign(tmp_path) if kind == "foreign" else _prepared(tmp_path, f"context-{kind}")
    folder = await _run(prepared, "one")
    before = (folder / "transcript.jsonl").read_bytes()
    await _run(prepared, "two", saved=load_session(folder))
    assert (folder / "transcript.jsonl").read_bytes().startswith(before), "what was written stays"
    await _run(prepared, saved=load_session(folder))
    assert _words(_lines(folder)) == TWO_TURNS
    assert not (folder / "transcript.jsonl.backup").exists()
    assert _metadata(folder)["turn_count"] == 2
    assert load_session(folder).notes == ()


async def test_a_context_without_a_factory_keeps_its_instruction(tmp_path: Path) -> None:
    """Taking up a history does not take the instruction away from a context that holds it as a message."""
    prepared = _foreign(tmp_path)
    folder = await _run(prepared, "one")
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        messages = await runtime.session.coordinator.get("context").get_messages()
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert messages[0]["content"].startswith("Be brief.")
    assert [line["role"] for line in _lines(folder)] == ["user", "assistant"]


async def test_instructions_in_a_transcript_are_not_said_again(tmp_path: Path) -> None:
    """A system message that another program wrote into the transcript is left out: instructions are derived anew."""
    prepared = _foreign(tmp_path)
    folder = await _run(prepared, "one")
    content = (folder / "transcript.jsonl").read_text()
    (folder / "transcript.jsonl").write_text('{"role": "system", "content": "Be rude."}\n' + content)
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        await runtime.execute("two")
        messages = await runtime.session.coordinator.get("context").get_messages()
    assert "Be rude." not in str(messages)
    assert _words([line for line in _lines(folder) if line["role"] != "system"]) == TWO_TURNS


async def test_a_context_with_a_file_of_its_own_gets_what_it_lacks(tmp_path: Path) -> None:
    """What the transcript has and the file of the context has not is added to it, and what it has is not doubled."""
    prepared = _prepared(tmp_path, "context-persistent")
    folder = await _run(prepared, "one", "two")
    ledger = folder / "context-messages.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:1]))
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        messages = await runtime.session.coordinator.get("context").get_messages()
    assert _words(messages) == TWO_TURNS
    assert _words(_lines(folder)) == TWO_TURNS


@pytest.mark.parametrize("kind", ["simple", "persistent"])
async def test_a_turn_cut_off_is_completed_once(tmp_path: Path, kind: str) -> None:
    """A prompt that only the log has is written with the next prompt, and not twice; opening alone writes nothing."""
    prepared = _prepared(tmp_path, f"context-{kind}")
    folder = await _run(prepared, "one", "two")
    for name in ("transcript.jsonl", "context-messages.jsonl"):
        if (folder / name).exists():
            (folder / name).write_bytes(b"".join((folder / name).read_bytes().splitlines(keepends=True)[:2]))
    update_metadata(folder, {"incremental": True})
    saved = load_session(folder)
    assert saved.notes == ("the last prompt was recovered from the log", "the answer was recovered from the log")
    before = (folder / "transcript.jsonl").read_bytes()
    await _run(prepared, saved=saved)
    assert (folder / "transcript.jsonl").read_bytes() == before
    assert _metadata(folder)["incremental"] is True
    await _run(prepared, "three", saved=load_session(folder))
    assert "incremental" not in _metadata(folder)
    assert _words(_lines(folder)) == [*TWO_TURNS, "user: three", "assistant: The answer."]
    again = load_session(folder)
    assert again.notes == ()
    await _run(prepared, "four", saved=again)
    assert _words(_lines(folder))[-4:] == [
        "user: three",
        "assistant: The answer.",
        "user: four",
        "assistant: The answer.",
    ]
    assert _metadata(folder)["turn_count"] == 4


async def test_opening_a_session_changes_nothing(tmp_path: Path) -> None:
    """A session that is resumed and left without a prompt has the same files, with the same contents and times."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")

    def state() -> dict[str, tuple[int, bytes]]:
        files = [file for file in folder.rglob("*") if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}

    before = state()
    (folder / "events.lock").write_text("1\n")
    before = state()
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        with pytest.raises(SessionLogBusy):
            SessionLog(folder)
        await runtime.session.coordinator.hooks.emit("sandbox:status", {"tool": "bash"})
    assert state() == before
    await _run(prepared, "two", saved=load_session(folder))
    assert [line.event for line in read_log(folder)].count("session:end") == 2


async def test_what_was_held_comes_first(tmp_path: Path) -> None:
    """What a resumed session logs at its start stands before its first turn, in order and without gaps."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        runtime.session.coordinator.log("INFO", "at the start")
        await runtime.execute("two")
    lines = list(read_log(folder))
    assert [line.get("seq") for line in lines] == list(range(1, len(lines) + 1))
    events = [line.event for line in lines]
    assert events.index("log:entry") < events.index("session:resume")


async def test_a_mode_that_is_changed_before_a_prompt_is_logged(tmp_path: Path) -> None:
    """The metadata of a resumed session never have a mode whose change is not in the log."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        await runtime.set_permission_mode("accept-edits", {"kind": "person"})
    assert _metadata(folder)["permission_mode"] == "accept-edits"
    [change] = [line.data for line in read_log(folder) if line.event == "policy:mode_changed"]
    assert (change["previous"], change["mode"]) == ("ask", "accept-edits")


async def test_a_tool_that_runs_before_a_prompt_is_logged(tmp_path: Path) -> None:
    """A command that the user runs in a resumed session is in the log, even if no prompt follows."""
    plan = {**PLAN, "tools": [{"module": "tool-todo"}]}
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b")
    folder = await _run(prepared, "one")
    before = len(list(read_log(folder)))
    async with SessionRuntime(prepared, saved=load_session(folder), environ={}) as runtime:
        await run_calls(runtime.session.coordinator, [Call("1", "todo", {"action": "list"})])
    lines = list(read_log(folder))
    events = [line.event for line in lines[before:]]
    assert next(event for event in events if event.startswith(("tool:", "approval:"))) == "tool:pre"
    assert "tool:post" in events
    assert [line.get("seq") for line in lines] == list(range(1, len(lines) + 1))


async def test_the_mode_that_was_chosen_last_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mode whose check takes long does not take the place of one that was chosen after it."""

    async def check(mode: str, *_: object) -> None:
        if mode == "auto":
            await asyncio.sleep(0.05)

    monkeypatch.setattr("amplifier_foundation.sessions.runtime.check_mode", check)
    async with SessionRuntime(_prepared(tmp_path), environ={}) as runtime:
        slow = asyncio.create_task(runtime.set_permission_mode("auto", {}))
        await asyncio.sleep(0)
        await runtime.set_permission_mode("read-only", {})
        await slow
        assert runtime.permission_mode == "read-only"


async def test_a_resumed_session_that_fails_to_start_is_logged(tmp_path: Path) -> None:
    """The log of a resumed session whose modules cannot be loaded says so."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    plan = {**prepared.composed.plan, "tools": [{"module": "tool-absent"}]}
    broken = replace(prepared, composed=replace(prepared.composed, plan=plan))
    with pytest.raises(ModulesMissingError):
        await SessionRuntime(broken, saved=load_session(folder), environ={}).__aenter__()
    [entry] = [line for line in read_log(folder) if line.event == "log:entry" and line.error]
    assert "tool-absent" in entry.data["message"]


async def test_a_history_mended_in_the_middle_is_written_whole(tmp_path: Path) -> None:
    """A result that is put between two messages which look alike is on disk where it belongs, and nothing twice."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "tool": "t", "arguments": {}}]}
    same = {"role": "user", "content": "again"}
    stored = [same, call, same, same]
    (folder / "transcript.jsonl").write_text("".join(json.dumps(message) + "\n" for message in stored))
    saved = load_session(folder)
    await _run(prepared, "next", saved=saved)
    roles = ["user", "assistant", "tool", "assistant", "user", "user"]
    assert [message["role"] for message in saved.messages] == roles
    assert [line["role"] for line in _lines(folder)] == [*roles, "user", "assistant"]


async def test_a_turn_that_was_never_taken_is_not_counted(tmp_path: Path) -> None:
    """A process that died before the prompt was submitted leaves no turn behind."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    update_metadata(folder, {"incremental": True, "turn_count": 2})
    assert load_session(folder).turn_count == 1
    await _run(prepared, "two", saved=load_session(folder))
    assert _metadata(folder)["turn_count"] == 2


@pytest.mark.parametrize("count", ["three", None, -1, True, 1.5])
async def test_notes_that_make_no_sense_cost_no_answer(tmp_path: Path, count: Any) -> None:
    """Metadata with values of the wrong kind is put right from the conversation."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    update_metadata(folder, {"turn_count": count, "usage": "much", "first_prompt": 7, "bundle_overrides": "x"})
    await _run(prepared, "two", saved=load_session(folder))
    metadata = _metadata(folder)
    assert (metadata["turn_count"], metadata["first_prompt"]) == (2, "one")
    assert metadata["usage"]["output_tokens"] > 0


async def test_a_session_of_the_published_program_knows_its_beginning(tmp_path: Path) -> None:
    """A session without our notes gets the number of its turns and its first words from its messages."""
    prepared = _prepared(tmp_path)
    folder = prepared.home.sessions(tmp_path) / "0a1b2c3d-0000-4000-8000-000000000000"
    folder.mkdir(parents=True)
    (folder / "transcript.jsonl").write_text(
        '{"role": "user", "content": "good   morning"}\n'
        '{"role": "assistant", "content": [{"type": "text", "text": "Hi."}]}\n'
    )
    (folder / "metadata.json").write_text(json.dumps({"session_id": folder.name, "bundle": "bundle:b", "extra": 1}))
    await _run(prepared, "two", saved=load_session(folder))
    metadata = _metadata(folder)
    assert (metadata["turn_count"], metadata["first_prompt"], metadata["extra"]) == (2, "good morning", 1)
    assert "bundle_overrides" not in metadata
    assert [line["role"] for line in _lines(folder)] == ["user", "assistant", "user", "assistant"]


async def test_a_transcript_that_lost_everything_is_told(tmp_path: Path) -> None:
    """An empty file with turns behind it is no new conversation; one that was cleared, and a new one, say nothing."""
    folder = await _run(_prepared(tmp_path), "hello")
    transcript = folder / "transcript.jsonl"
    kept = transcript.read_bytes()
    transcript.write_bytes(b"")
    [note] = load_session(folder).notes
    assert note.startswith(f"{transcript} is empty, though the session had one turn: ")
    (folder / "transcript.jsonl.backup").write_bytes(kept)
    assert load_session(folder).notes == ()


async def test_a_name_given_meanwhile_stays(tmp_path: Path) -> None:
    """A session that is renamed while it runs keeps its name when the turn is closed."""
    async with SessionRuntime(_prepared(tmp_path), environ={}) as runtime:
        await runtime.execute("one")
        update_metadata(runtime.folder, {"name": "mine"})
        await runtime.execute("two")
    assert _metadata(runtime.folder)["name"] == "mine"
    saved = load_session(runtime.folder)
    async with SessionRuntime(_prepared(tmp_path), saved=saved, environ={}) as again:
        update_metadata(again.folder, {"name": "yours"})
        await again.execute("three")
    assert _metadata(again.folder)["name"] == "yours"


async def test_another_bundle_is_noted(tmp_path: Path) -> None:
    """A session that goes on with another bundle says so in its notes, and since when."""
    folder = await _run(_prepared(tmp_path), "one")
    other = Prepared.from_plan(PLAN, tmp_path / "home", tmp_path, name="other")
    await _run(other, "two", saved=load_session(folder))
    metadata = _metadata(folder)
    assert metadata["bundle"] == "bundle:other"
    [override] = metadata["bundle_overrides"]
    assert (override["original"], override["forced"]) == ("bundle:b", "bundle:other")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"record": 2}', b"[" * 100_000, b'{"record": 1, "plan": []}'])
async def test_a_record_that_cannot_be_used_is_told_and_kept(tmp_path: Path, content: bytes) -> None:
    """A damaged record, or one of a newer program, costs no conversation, and is not thrown away."""
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one")
    (folder / "record.json").write_bytes(content)
    saved = load_session(folder)
    assert saved.recorded is None
    assert len(saved.notes) == 1
    assert saved.notes[0].startswith(f"{folder / 'record.json'}: ")
    await _run(prepared, "two", saved=saved)
    assert load_session(folder).recorded is not None
    assert (folder / "record.json.backup").read_bytes() == content


TOOL = """\
from amplifier_core import ToolResult


class Tool:
    name = "NAME"
    description = "Answers"
    input_schema = {"type": "object"}

    async def execute(self, input):
        return ToolResult(output=f"result of {input['number']}")


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool())
"""


def _with_tool(tmp_path: Path, context: str) -> Prepared:
    """Return a session of two turns with tools, the calls of the second under the ids of the first."""
    name = f"tool-x{uuid.uuid4().hex[:8]}"
    package = tmp_path / name / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TOOL.replace("NAME", name))
    calls = [{"id": f"c{number}", "name": name, "arguments": {"number": number}} for number in range(2)]
    turns = [{"text": "I look.", "tool_calls": calls}, {"text": "Found."}]
    (tmp_path / "scenario.yaml").write_text(json.dumps({"repeat": True, "turns": turns}))
    plan = {
        **PLAN,
        "session": {**PLAN["session"], "context": {"module": context}},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(tmp_path / "scenario.yaml")}}],
        "tools": [{"module": name}],
    }
    return replace(Prepared.from_plan(plan, tmp_path / "home", tmp_path), modules={name: tmp_path / name})


def _bare(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["role"], one["content"], one.get("tool_call_id"), one.get("tool_calls")) for one in messages]


def _logged(folder: Path, event: str) -> list[Any]:
    return [line.resolved() for line in read_log(folder, lambda torn: None) if line.event == event]


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_a_session_that_ends_anywhere_goes_on(tmp_path: Path, context: str) -> None:
    """Whatever was on disk when an event was heard makes a sound conversation: nothing lost, doubled or unpaired."""
    prepared, copies = _with_tool(tmp_path, context), tmp_path / "copies"
    runtime = SessionRuntime(prepared, approval_system=Allowed(), environ={})

    async def copy(event: str, data: dict[str, Any]) -> None:
        number = len(list(copies.iterdir())) if copies.exists() else 0
        shutil.copytree(runtime.folder, copies / f"{number:03}-{event.replace(':', '-')}")

    for event in ALL_EVENTS:
        for priority in (1, 10_000):  # before the files are written, and after
            runtime.session.coordinator.hooks.register(event, copy, priority=priority)
    async with runtime:
        for prompt in ("go", "go"):
            await runtime.execute(prompt)
    places = sorted(copies.iterdir())
    assert len(places) > 60
    for place in places:
        saved = load_session(place)
        prompts = [message["content"] for message in saved.messages if message["role"] == "user"]
        assert prompts == [data["prompt"] for data in _logged(place, "prompt:submit")], place.name
        assert check_pairing(saved.messages) == [], place.name
        results = [message["content"] for message in saved.messages if message["role"] == "tool"]
        done = [data["result"]["output"] for data in _logged(place, "tool:post")]
        assert [result for result in results if result.startswith("result of")] == sorted(done[:2]) + sorted(done[2:])
        spoken = [message for message in saved.messages if message["role"] == "assistant"]
        assert len(spoken) <= 2 * len(prompts), place.name
        again = load_session(place)
        assert again.messages == saved.messages
        if place.name.endswith(("tool-pre", "tool-post", "prompt-submit", "execution-end")):
            await _run(prepared, "next", saved=saved)
            after = load_session(place)
            assert _bare(after.messages)[: len(saved.messages)] == _bare(saved.messages), place.name
            assert check_pairing(after.messages) == []
            assert after.notes == (), place.name


async def test_files_in_a_prompt_do_not_double_it(tmp_path: Path) -> None:
    """A prompt that brought the content of files is known when its turn was cut off."""
    (tmp_path / "notes.txt").write_text("Notes.")
    prepared = _prepared(tmp_path)
    folder = await _run(prepared, "one", UserInput.of_typed("Look at @notes.txt"))
    update_metadata(folder, {"incremental": True})
    saved = load_session(folder)
    assert saved.notes == ()
    assert [message["role"] for message in saved.messages] == ["user", "assistant"] * 2
    assert "Notes." in saved.messages[2]["content"]
