"""One session, the way applications run it."""

import asyncio
import json
import logging
import shutil
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.log.files import SessionLogBusy
from amplifier_kit.log.reader import read_log

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"responses": ["The answer."]}}],
    "hooks": [{"module": "hooks-logging"}],
}


def _runtime(tmp_path: Path, plan: dict[str, Any] = PLAN, **more: Any) -> SessionRuntime:
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b")
    return SessionRuntime(prepared, environ={}, **more)


async def test_a_session_leaves_its_files(tmp_path: Path) -> None:
    """Log, transcript and metadata lie in one folder that is its owner's alone."""
    runtime = _runtime(tmp_path)
    async with runtime:
        assert await runtime.execute("hello") == "The answer."
    assert runtime.folder.stat().st_mode & 0o777 == 0o700
    roles = [json.loads(line)["role"] for line in (runtime.folder / "transcript.jsonl").read_text().splitlines()]
    assert roles == ["user", "assistant"]
    metadata = json.loads((runtime.folder / "metadata.json").read_text())
    assert (metadata["bundle"], metadata["turn_count"]) == ("bundle:b", 1)
    assert [line.event for line in read_log(runtime.folder)][-1] == "session:end"


async def test_a_history_that_cannot_be_kept_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A context that fails to tell its history is complained about once, and the answers are returned."""
    runtime = _runtime(tmp_path)
    async with runtime:

        def broken(position: int) -> list[Any]:
            raise KeyError("history")

        monkeypatch.setattr(runtime.session.coordinator.get("context"), "messages_since", broken)
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                assert await runtime.execute("hello") == "The answer."
    said = [record.getMessage() for record in caplog.records if "transcript.jsonl" in record.getMessage()]
    assert len(said) == 1
    assert "KeyError: 'history'" in said[0]


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_missing_loop_is_fatal(tmp_path: Path, is_allowed: bool) -> None:
    """Without its loop a session cannot run, whatever is allowed."""
    session = {**PLAN["session"], "orchestrator": {"module": "loop-absent"}}
    runtime = _runtime(tmp_path, {**PLAN, "session": session}, allow_missing_modules=is_allowed)
    with pytest.raises(ModulesMissingError, match="loop-absent") as raised:
        await runtime.__aenter__()
    assert raised.value.is_fatal


@pytest.mark.parametrize("first", ["orchestrator", "context"])
async def test_a_missing_loop_or_context_hides_no_other_failure(tmp_path: Path, first: str) -> None:
    """What the kernel does not come to any more is named too, with its kind and what is wrong; nothing twice."""
    lists = {"providers": "provider-absent", "tools": "tool-absent", "hooks": "hooks-absent"}
    plan: dict[str, Any] = {**PLAN, **{name: [*PLAN.get(name, ()), {"module": one}] for name, one in lists.items()}}
    plan["session"] = {**PLAN["session"], "context": {"module": "context-absent"}}
    if first == "orchestrator":
        plan["session"]["orchestrator"] = {"module": "loop-absent"}
    with pytest.raises(ModulesMissingError) as raised:
        await _runtime(tmp_path, plan, allow_missing_modules=True).__aenter__()
    said, *others = raised.value.failures
    assert ("loop-absent" if first == "orchestrator" else "context-absent") in said
    kinds = ["provider 'provider-absent'", "tool 'tool-absent'", "hook 'hooks-absent'"]
    wanted = ["context 'context-absent'", *kinds] if first == "orchestrator" else kinds
    assert [failure.split(":")[0] for failure in others] == wanted
    assert all("absent' " in failure.split(": ", 1)[1] for failure in others)


async def test_a_missing_tool_may_be_allowed(tmp_path: Path) -> None:
    """Every missing module is named, unless the caller allows it."""
    plan = {**PLAN, "tools": [{"module": "tool-absent"}, {"module": "tool-gone"}]}
    with pytest.raises(ModulesMissingError) as raised:
        await _runtime(tmp_path, plan).__aenter__()
    assert [failure.split(":")[0] for failure in raised.value.failures] == ["tool 'tool-absent'", "tool 'tool-gone'"]
    assert not raised.value.is_fatal
    async with _runtime(tmp_path, plan, allow_missing_modules=True) as runtime:
        assert await runtime.execute("hello") == "The answer."


@pytest.mark.parametrize("named", [{}, {"id": "lab", "instance_id": "lab"}])
async def test_another_provider_never_takes_the_place_of_a_missing_one(tmp_path: Path, named: dict[str, str]) -> None:
    """A session whose provider cannot be loaded does not begin, whatever is allowed; one behind it may be missing."""
    absent = {"module": "provider-absent", **named}
    first = {**PLAN, "providers": [{**absent, "config": {"priority": 1}}, *PLAN["providers"]]}
    with pytest.raises(ModulesMissingError, match="provider-absent") as raised:
        await _runtime(tmp_path, first, allow_missing_modules=True).__aenter__()
    assert raised.value.is_fatal
    behind = {**PLAN, "providers": [*PLAN["providers"], {**absent, "config": {"priority": 200}}]}
    async with _runtime(tmp_path, behind, allow_missing_modules=True) as runtime:
        assert await runtime.execute("hello") == "The answer."


async def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A session that runs is not opened a second time; when it has ended it may be."""
    async with _runtime(tmp_path, session_id="one"):
        second = _runtime(tmp_path, session_id="one")
        with pytest.raises(SessionLogBusy):
            await second.__aenter__()
        assert not second.was_opened
    async with _runtime(tmp_path, session_id="one") as again:
        await again.execute("hello")
    numbers = [line.seq for line in read_log(again.folder)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_variable_that_is_not_set_is_told(tmp_path: Path) -> None:
    """What is empty because its variable is not set is told by key and name; what is set is never shown."""
    config = {"responses": ["${GREETING:Hello.}"], "api_key": "${NO_KEY}", "note": "${SET} ${NO_NOTE}"}
    plan = {**PLAN, "providers": [{"module": "provider-mock", "config": config}]}
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path)
    runtime = SessionRuntime(prepared, environ={"SET": "sk-very-secret-value"})
    assert runtime.warnings == (
        "providers.provider-mock.config.api_key: the variable NO_KEY is not set, so this is empty",
        "providers.provider-mock.config.note: the variable NO_NOTE is not set, so this is empty",
    )
    assert _runtime(tmp_path).warnings == ()


@pytest.mark.parametrize("priority", ["5", "500", None, 3])
async def test_a_priority_may_come_from_a_variable(tmp_path: Path, priority: Any) -> None:
    """The model in a session's notes is that of the provider with the smallest number, text or not."""
    configs = {"one": {"default_model": "m1", "priority": 50}, "two": {"default_model": "m2", "priority": priority}}
    entries = [
        {"module": "provider-mock", "id": name, "instance_id": name, "config": config}
        for name, config in {**configs, "odd": None}.items()
    ]
    async with _runtime(tmp_path, {**PLAN, "providers": entries}) as runtime:
        await runtime.execute("hello")
    metadata = json.loads((runtime.folder / "metadata.json").read_text())
    assert metadata["model"] == ("two/m2" if priority in ("5", 3) else "one/m1")


async def test_a_model_that_is_not_named_is_not_made_up(tmp_path: Path) -> None:
    """When the plan leaves the model to the provider, the notes name the provider and no model, also of an old note."""
    from amplifier_foundation.sessions.resume import load_session

    async with _runtime(tmp_path) as runtime:
        await runtime.execute("hello")
    path = runtime.folder / "metadata.json"
    metadata = json.loads(path.read_text())
    assert metadata["provider"] == runtime.provider == "provider-mock"
    assert runtime.model is None
    assert "model" not in metadata
    path.write_text(json.dumps({**metadata, "model": "one/that-was-named"}))
    async with SessionRuntime(runtime.prepared, saved=load_session(runtime.folder), environ={}) as again:
        await again.execute("hello")
    assert "model" not in json.loads(path.read_text())


async def test_a_plan_that_is_none_is_told_by_the_kernel(tmp_path: Path) -> None:
    """A session section that is no mapping is an error that says so."""
    with pytest.raises(TypeError, match="'session' must be a dict"):
        _runtime(tmp_path, {"session": ["x"]})


async def test_modules_find_what_an_app_offers(tmp_path: Path) -> None:
    """Where the session works, where its files go, and how mentions are resolved is known while modules are mounted."""
    keys = ["session.working_dir", "session.dir", "amplifier.home", "bundle_package_paths", "mention_resolver"]
    name, folder = _module(
        tmp_path, "seen = {}", f"seen.update((key, coordinator.get_capability(key)) for key in {keys!r})"
    )
    plan = {**PLAN, "hooks": [*PLAN["hooks"], {"module": name}]}
    prepared = replace(
        Prepared.from_plan(plan, tmp_path / "home", tmp_path), modules={name: folder}, package_paths=(tmp_path / "src",)
    )
    async with SessionRuntime(prepared, environ={}) as runtime:
        assert runtime.session.coordinator.get_capability("mention_deduplicator") is runtime.prompt.deduplicator
    seen = sys.modules[f"amplifier_module_{name.replace('-', '_')}"].seen
    assert seen == {
        "session.working_dir": str(tmp_path),
        "session.dir": runtime.folder,
        "amplifier.home": tmp_path / "home",
        "bundle_package_paths": [str(tmp_path / "src")],
        "mention_resolver": runtime.prompt.resolver,
    }


def _module(tmp_path: Path, head: str = "", body: str = "pass") -> tuple[str, Path]:
    """Write a hook module under a name that no other test has: a process loads a package once."""
    name = f"hooks-x{uuid.uuid4().hex[:8]}"
    package = tmp_path / name / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{head}\n\nasync def mount(coordinator, config=None):\n    {body}\n")
    return name, tmp_path / name


async def test_a_session_leaves_the_import_path_as_it_was(tmp_path: Path) -> None:
    """Folders of modules are on the path while the session runs, behind everything else, and not for the next one."""
    name, folder = _module(tmp_path)
    prepared = replace(
        Prepared.from_plan({**PLAN, "hooks": [{"module": name}]}, tmp_path / "home", tmp_path), modules={name: folder}
    )
    before = list(sys.path)
    async with SessionRuntime(prepared, environ={}):
        assert sys.path == [*before, str(folder)]
    assert sys.path == before
    missing = {**prepared.composed.plan, "hooks": [{"module": name}, {"module": "hooks-absent"}]}
    with pytest.raises(ModulesMissingError):
        async with SessionRuntime(replace(prepared, composed=replace(prepared.composed, plan=missing)), environ={}):
            pass
    assert sys.path == before


async def test_two_modules_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    """A process that has loaded a module does not take it for another one of the same name: that session fails."""
    name, folder = _module(tmp_path, "WHERE = 1")
    other = tmp_path / "other" / name
    shutil.copytree(folder, other)
    plan = {**PLAN, "hooks": [{"module": name}]}
    first = replace(Prepared.from_plan(plan, tmp_path / "home", tmp_path), modules={name: folder})
    async with SessionRuntime(first, environ={}):
        with pytest.raises(ModulesMissingError, match="already loaded from"):
            async with SessionRuntime(replace(first, modules={name: other}), environ={}):
                pass
        with pytest.raises(ModulesMissingError, match="for another session of this process"):
            async with SessionRuntime(replace(first, modules={}), environ={}):
                pass
    with pytest.raises(ModulesMissingError, match="for another session of this process"):
        async with SessionRuntime(replace(first, modules={}), environ={}):
            pass
    async with SessionRuntime(first, environ={}):
        pass


async def test_a_session_that_cannot_start_lets_go_of_everything(tmp_path: Path) -> None:
    """When bringing it up fails, or is cancelled, the log is closed and the session may be opened again."""
    name, folder = _module(tmp_path, "import asyncio", "await asyncio.sleep(60)")
    plan = {**PLAN, "hooks": [*PLAN["hooks"], {"module": name}]}
    prepared = replace(Prepared.from_plan(plan, tmp_path / "home", tmp_path), modules={name: folder})
    before = list(sys.path)
    runtime = SessionRuntime(prepared, session_id="one", environ={})
    starting = asyncio.create_task(runtime.__aenter__())
    assert await wait_for(lambda: runtime.was_opened, timeout=60)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert sys.path == before
    async with _runtime(tmp_path, session_id="one") as again:
        assert await again.execute("hello") == "The answer."


async def test_a_turn_that_fails_is_closed(tmp_path: Path) -> None:
    """A turn that ends with an error has its prompt on disk, and the notes do not say that it still runs."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(json.dumps({"turns": []}))
    plan = {**PLAN, "providers": [{"module": "provider-mock", "config": {"scenario": str(scenario)}}]}
    async with _runtime(tmp_path, plan) as runtime:
        with pytest.raises(Exception, match=r".+"):
            await runtime.execute("hello")
    metadata = json.loads((runtime.folder / "metadata.json").read_text())
    assert "incremental" not in metadata
    lines = (runtime.folder / "transcript.jsonl").read_text().splitlines()
    assert [json.loads(line)["content"] for line in lines] == ["hello"]


@pytest.mark.parametrize("can_attach", [True, False])
async def test_attachments_are_part_of_the_prompt(tmp_path: Path, can_attach: bool) -> None:
    """Content blocks stand before the text of one prompt; a loop that cannot attach them has them in a message."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    runtime = _runtime(tmp_path)
    async with runtime:
        coordinator = runtime.session.coordinator
        if not can_attach:
            coordinator.get("orchestrator").attach = None
        await runtime.execute("what is this", attachments=[image])
        await runtime.execute("and now")
        messages = await coordinator.get("context").get_messages()
    said = [message["content"] for message in messages if message["role"] == "user"]
    if can_attach:
        assert said == [[image, {"type": "text", "text": "what is this"}], "and now"]
    else:
        assert said == [[image], "what is this", "and now"]
