"""A session can be resumed where it ended."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import amplifier_module_context_persistent as module
from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_context_persistent import PersistentContextManager

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def with_context(counting_plan: dict[str, Any], **config: Any) -> dict[str, Any]:
    context = {"module": "context-persistent", "config": config}
    return {**counting_plan, "session": {**counting_plan["session"], "context": context}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def mounted(**config: Any) -> tuple[PersistentContextManager, Any]:
    """Mount the module on a new coordinator; return the context and the cleanup."""
    coordinator = MockCoordinator()
    cleanup = await module.mount(coordinator, config)
    return coordinator.get("context"), cleanup


async def contents(context: PersistentContextManager) -> list[Any]:
    return [message["content"] for message in await context.get_messages()]


async def test_the_plan_of_the_readme_runs(counting_plan: dict[str, Any]) -> None:
    """The entry that the page shows keeps the session where it says, with the memory it names."""
    Path("AGENTS.md").write_text("Be brief.", encoding="utf-8")
    [block] = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    shown = json.loads(block)
    async with AmplifierSession(
        {**counting_plan, "session": {**counting_plan["session"], **shown["session"]}}
    ) as session:
        assert await session.execute("hello") == "2 messages"
        provider = session.coordinator.get("providers")["counting"]
        assert provider.requests[0][0]["content"] == "[Context from AGENTS.md]\n\nBe brief."
    lines = Path("notes/session.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["content"] for line in lines] == ["hello", "2 messages"]


async def test_a_session_is_taken_up_again(counting_plan: dict[str, Any], home: Path) -> None:
    """A second session of the same id starts with what the first one said."""
    for expected in ("1 messages", "3 messages", "5 messages"):
        async with AmplifierSession(with_context(counting_plan), session_id="one") as session:
            assert await session.execute("hello") == expected
    [path] = home.rglob("context-messages.jsonl")
    assert path.parent.name == "one"
    assert len(path.read_text(encoding="utf-8").splitlines()) == 6


async def test_mounting_alone_leaves_no_trace(home: Path) -> None:
    """A validator, or a session without messages, creates nothing."""
    _, cleanup = await mounted()
    cleanup()
    assert not home.exists()


async def test_the_file_is_read_only_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are built from memory; what others do to the file meanwhile is not seen."""
    context, cleanup = await mounted(transcript_path="t.jsonl")
    await context.add_message(user("one"))
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
    for _ in range(3):
        assert len(await context.get_messages_for_request()) == 1
    cleanup()


async def test_set_messages_counts_only_without_a_transcript(caplog: pytest.LogCaptureFixture) -> None:
    """A history set from outside is written; one that was read at the start is the truth."""
    caplog.set_level("INFO")
    context, cleanup = await mounted(transcript_path="t.jsonl")
    await context.add_message(user("overwritten"))
    await context.set_messages([user("one"), user("two")])
    assert await contents(context) == ["one", "two"]
    cleanup()
    context, cleanup = await mounted(transcript_path="t.jsonl")
    assert await contents(context) == ["one", "two"]
    await context.set_messages([user("something else")])
    assert await contents(context) == ["one", "two"]
    assert "set_messages is ignored" in caplog.text
    cleanup()


async def test_clear_is_remembered() -> None:
    """What was cleared stays cleared in the sessions after this one."""
    context, cleanup = await mounted(transcript_path="t.jsonl")
    await context.add_message(user("one"))
    await context.clear()
    assert await contents(context) == []
    await context.add_message(user("two"))
    cleanup()
    context, cleanup = await mounted(transcript_path="t.jsonl")
    assert await contents(context) == ["two"]
    cleanup()


async def test_compaction_leaves_the_file_whole() -> None:
    """Views shrink; the file has every message."""
    context, cleanup = await mounted(transcript_path="t.jsonl")
    for number in range(80):
        await context.add_message(user(f"{number} " * 100))
        assert len(await context.get_messages_for_request(token_budget=3000)) <= number + 2
    assert len(await context.get_messages_for_request(token_budget=3000)) < 80
    cleanup()
    context, cleanup = await mounted(transcript_path="t.jsonl")
    assert len(await context.get_messages()) == 80
    cleanup()


async def test_a_resumed_session_has_the_view_of_the_one_before() -> None:
    """The same ledger and budget give the same view, also after a restart."""
    context, cleanup = await mounted(transcript_path="t.jsonl")
    for number in range(80):
        await context.add_message(user(f"{number} " * 100))
        before = await context.get_messages_for_request(token_budget=3000)
    cleanup()
    context, cleanup = await mounted(transcript_path="t.jsonl")
    assert await context.get_messages_for_request(token_budget=3000) == before
    cleanup()


async def test_system_messages_are_not_persisted() -> None:
    """Every session derives its instructions, so a restart does not double them."""
    context, cleanup = await mounted(transcript_path="t.jsonl")
    await context.add_message({"role": "system", "content": "be good"})
    await context.add_message(user("one"))
    assert await contents(context) == ["be good", "one"]
    cleanup()
    context, cleanup = await mounted(transcript_path="t.jsonl")
    assert await contents(context) == ["one"]
    cleanup()


async def test_a_second_session_on_one_transcript_is_refused(counting_plan: dict[str, Any]) -> None:
    """While the first is alive the second does not start, and the error names the file."""
    async with AmplifierSession(with_context(counting_plan, transcript_path="t.jsonl")) as session:
        await session.execute("hello")
        with pytest.raises(RuntimeError, match=r"t\.jsonl is being written by another session"):
            async with AmplifierSession(with_context(counting_plan, transcript_path="t.jsonl")):
                pass


async def test_memory_is_part_of_every_request(caplog: pytest.LogCaptureFixture) -> None:
    """Memory files stand in the system part, also beside a factory and after clear; a missing one is a warning."""
    Path("notes.md").write_text("\ufeffLikes tea.", encoding="utf-8")
    context, cleanup = await mounted(memory_files=["notes.md", "gone.md"])

    async def factory() -> str:
        return "Be kind."

    context.set_system_prompt_factory(factory)
    await context.clear()
    view = await context.get_messages_for_request()
    assert [message["content"] for message in view] == ["Be kind.", "[Context from notes.md]\n\nLikes tea."]
    assert f"memory file {Path.cwd() / 'gone.md'} is left out" in caplog.text
    cleanup()


async def test_memory_beyond_the_budget_is_refused() -> None:
    """The mount fails and says how much is too much."""
    Path("notes.md").write_text("x" * 9000, encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"memory files take about 2\d+ tokens and the budget is 2000"):
        await mounted(memory_files=["notes.md"], max_tokens=2000)


@pytest.mark.parametrize("files", ["notes.md", [5], {"a": 1}])
async def test_memory_files_are_a_list(files: Any) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match="config key 'memory_files' must be a list of paths"):
        await mounted(memory_files=files)


async def test_defaults() -> None:
    """The defaults that differ from context-simple, and the key that has no meaning."""
    context, cleanup = await mounted(truncate_boundary=0.5)
    assert (context.settings.max_tokens, context.settings.protected_recent) == (200_000, 0.10)
    assert (context.settings.compact_threshold, context.settings.target_usage) == (0.92, 0.50)
    assert context.settings.truncate_chars == 250
    cleanup()


SECRET = "kd83-hx92-qq71-zz05"


async def test_secrets_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, counting_plan: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The file has masks where the session has secrets; calls and results still pair; the next session says so."""
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    planned = {**with_context(counting_plan, transcript_path="t.jsonl"), "tools": []}
    planned["session"]["metadata"] = {"db_password": "plan-secret-77"}
    call = {"id": "c1", "tool": "login", "arguments": {"password": "hunter2-and-more", "user": "ann"}}
    messages = [
        user(f"the key is {SECRET}, the other one plan-secret-77"),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "login", "content": f"Authorization: Bearer {SECRET}"},
    ]
    async with AmplifierSession(planned) as session:
        context = session.coordinator.get("context")
        for message in messages:
            await context.add_message(message)
        assert SECRET in str(await context.get_messages())
        assert "hunter2-and-more" in str(await context.get_messages_for_request())
    text = Path("t.jsonl").read_text(encoding="utf-8")
    for secret in (SECRET, "plan-secret-77", "hunter2-and-more"):
        assert secret not in text
    context, cleanup = await mounted(transcript_path="t.jsonl")
    resumed = await context.get_messages()
    assert resumed[1]["tool_calls"][0]["id"] == resumed[2]["tool_call_id"] == "c1"
    assert resumed[1]["tool_calls"][0]["arguments"]["user"] == "ann"
    assert "secrets are masked in 3 of the messages" in caplog.text
    cleanup()


async def test_the_sessions_own_redaction_is_used(coordinator: MockCoordinator) -> None:
    """A capability `redaction.scrub` decides what is masked, whenever it was registered."""
    cleanup = await module.mount(coordinator, {"transcript_path": "t.jsonl"})
    coordinator.register_capability("redaction.scrub", lambda value: {**value, "content": "scrubbed", "role": "??"})
    await coordinator.get("context").add_message(user("ann@example.org"))
    cleanup()
    [line] = Path("t.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["content"] == "scrubbed"
    assert json.loads(line)["role"] == "user"


@pytest.mark.parametrize("scrub", [lambda value: 1 / 0, lambda value: "text"])
async def test_what_cannot_be_masked_is_not_written(coordinator: MockCoordinator, scrub: Any) -> None:
    """Redaction fails closed: the line says that something was said, and keeps calls paired."""
    cleanup = await module.mount(coordinator, {"transcript_path": "t.jsonl"})
    coordinator.register_capability("redaction.scrub", scrub)
    call = {"id": "c1", "tool": "t", "arguments": {"key": SECRET}}
    await coordinator.get("context").add_message({"role": "assistant", "content": SECRET, "tool_calls": [call]})
    cleanup()
    text = Path("t.jsonl").read_text(encoding="utf-8")
    assert SECRET not in text
    assert json.loads(text)["tool_calls"] == [{"id": "c1", "tool": "t"}]


async def test_a_lost_folder_does_not_stop_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """When the transcript's folder is removed and cannot be recreated, the session continues and reports it once."""
    Path("folder").mkdir()
    context, cleanup = await mounted(transcript_path="folder/t.jsonl")
    await context.add_message(user("one"))
    os.unlink("folder/t.jsonl")
    os.rmdir("folder")
    Path("folder").write_text("in the way", encoding="utf-8")
    for text in ("two", "three"):
        await context.add_message(user(text))
    assert await contents(context) == ["one", "two", "three"]
    assert caplog.text.count("cannot be written; the session continues from memory") == 1
    os.unlink("folder")
    await context.add_message(user("four"))
    cleanup()
    context, cleanup = await mounted(transcript_path="folder/t.jsonl")
    assert await contents(context) == ["one", "two", "three", "four"]
    cleanup()


@pytest.mark.parametrize("name", ["link.md", "folder/private.md", "pipe.md", "denied.md"])
async def test_memory_that_leads_out_or_is_denied_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A link out of the project, a pipe and what the rules keep from the model are left out with a warning."""
    (tmp_path / "private.md").write_text("private")
    Path("link.md").symlink_to(tmp_path / "private.md")
    Path("folder").symlink_to(tmp_path)
    os.mkfifo("pipe.md")
    Path("denied.md").write_text("private")
    coordinator = MockCoordinator()
    coordinator.register_capability("prompt.denied", lambda path, root: "no" if "denied" in path else None)
    cleanup = await module.mount(coordinator, {"memory_files": [name]})
    assert await coordinator.get("context").get_messages_for_request() == []
    assert f"memory file {Path.cwd() / name} is left out" in caplog.text
    cleanup()


@pytest.mark.parametrize("name", ["link.jsonl", "folder/other.jsonl"])
async def test_a_transcript_that_leads_out_is_not_opened(tmp_path: Path, name: str) -> None:
    """Neither are messages read from a file outside that the project links to, nor are any added to it."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"role": "user", "content": "private"}\n')
    Path("link.jsonl").symlink_to(other)
    Path("folder").symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        await mounted(transcript_path=name)
    assert other.read_text() == '{"role": "user", "content": "private"}\n'


async def test_a_transcript_that_is_denied_is_not_read() -> None:
    """What the rules keep from the model does not become its history."""
    Path("t.jsonl").write_text('{"role": "user", "content": "private"}\n')
    coordinator = MockCoordinator()
    coordinator.register_capability("prompt.denied", lambda path, root: "a rule denies it")
    with pytest.raises(OSError, match="a rule denies it"):
        await module.mount(coordinator, {"transcript_path": "t.jsonl"})


@pytest.mark.parametrize("is_folder", [False, True])
async def test_a_transcript_that_becomes_a_link_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_folder: bool
) -> None:
    """When a command puts a link in its place, the session continues from memory and writes nothing elsewhere."""
    (tmp_path / "outside").mkdir()
    outside = tmp_path / "outside" / "session.jsonl"
    outside.write_text("mine\n")
    context, cleanup = await mounted(transcript_path="notes/session.jsonl")
    await context.add_message({"role": "user", "content": "one"})
    Path("notes/session.jsonl").unlink()
    if is_folder:
        Path("notes").rmdir()
        Path("notes").symlink_to(outside.parent)
    else:
        Path("notes/session.jsonl").symlink_to(outside)
    await context.add_message({"role": "user", "content": "two"})
    assert await contents(context) == ["one", "two"]
    cleanup()
    assert outside.read_text() == "mine\n"
    assert "cannot be written; the session continues from memory" in caplog.text
