"""Children in processes of their own."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.approvals.answered_by import person_at
from amplifier_foundation.approvals.approvers import Approver, Approvers
from amplifier_foundation.children import ChildFacts, ChildFailedError, ChildRefusedError, remote
from amplifier_foundation.children.job import environment_for

_BASH = [{"module": "tool-bash", "config": {"sandbox": "off"}}]


def _command(command: str) -> list[dict[str, Any]]:
    return [{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "Done."}]


def _environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **more}


def _allow_commands(tree: Any, verdict: str = "allow") -> None:
    (tree.home / "policy.yaml").write_text(f"rules: [{{action: process.exec, verdict: {verdict}}}]", encoding="utf-8")


async def test_a_child_in_a_process_of_its_own_leaves_and_returns_the_same(tree: Any, spawn_in: Any) -> None:
    """Files, result, events and cost are those of a child in its parent's process, and it can be resumed there."""
    used = {"input_tokens": 3, "output_tokens": 2, "cost_usd": "0.5"}
    tree.script([], {"explorer": [{"expect": {"system_contains": "You explore."}, "text": "Seen.", "usage": used}]})
    heard: list[tuple[ChildFacts, str]] = []
    async with tree.run(
        environ=_environ(), on_child_event=lambda facts, event, data: heard.append((facts, event))
    ) as runtime:
        result = await spawn_in(runtime)("explorer", "Look.", use_subprocess=True, tool_call_id="c")
        assert {"cost_usd": "0.5"} in await runtime.session.coordinator.collect_contributions("session.cost")
        assert runtime.budget.used()["tokens"] == 5
        again = await spawn_in(runtime)("explorer", "Look.", use_subprocess=True, tool_call_id="c")
        resumed = await runtime.session.coordinator.get_capability("session.resume")(result["session_id"], "And now?")
    identity = result["session_id"]
    assert (result["output"], result["status"], result["metadata"]["cost_usd"]) == ("Seen.", "success", "0.5")
    assert again["metadata"]["is_stored"] is True
    assert resumed["output"] == "Seen."
    assert tree.metadata(identity)["turn_count"] == 2
    facts = ChildFacts(identity, runtime.session_id, "explorer", 1, "c", None)
    events = [event for whose, event in heard if whose == facts]
    assert (events[1], events.count("session:end")) == ("session:start", 1)


async def test_the_environment_of_the_process_has_what_it_needs_and_no_more(tree: Any, spawn_in: Any) -> None:
    """Keys of other programs are not there, whatever they are called."""
    _allow_commands(tree)
    tree.plan["tools"] = _BASH
    tree.plan["agents"]["explorer"]["session"] = {"metadata": {"wanted": "${WANTED}"}}
    tree.script([], {"explorer": _command("cat /proc/$PPID/environ | tr '\\0' '\\n' > seen.txt; cp seen.txt all.txt")})
    given = _environ(WANTED="x", OTHER_API_KEY="secret-1", HARMLESS="secret-2", AMPLIFIER_SOMETHING="y")
    async with tree.run(environ=given) as runtime:
        assert (await spawn_in(runtime)("explorer", "Go.", use_subprocess=True))["status"] == "success"
    # The values, not a word of theirs: the names of folders are in the environment too.
    assert not re.search("secret-[12]", (tree.project / "all.txt").read_text())


def test_variables_are_passed_on_by_need() -> None:
    """What the plan names, what its providers read, and what programs need to run."""
    plan = {"providers": [{"module": "provider-anthropic", "config": {"base_url": "${WHERE:https://x}"}}]}
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "https_proxy": "p",
        "WHERE": "w",
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "o",
    }
    assert set(environment_for(plan, given)) == set(given) - {"OPENAI_API_KEY"}
    assert set(environment_for({}, given)) == {"PATH", "LC_ALL", "https_proxy"}


async def test_rules_and_questions_cross_to_the_process(tree: Any, spawn_in: Any) -> None:
    """What must be asked is asked here, once, and the answer counts there."""
    _allow_commands(tree, "ask")
    tree.plan["tools"] = _BASH
    tree.script([], {"explorer": _command("echo was-run")})
    questions: list[str] = []

    class Asked:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            questions.append(prompt)
            return "Allow" if len(questions) == 1 else "Deny"

    async with tree.run(environ=_environ(), approval_system=Asked()) as runtime:
        results = [await spawn_in(runtime)("explorer", f"Go {n}.", use_subprocess=True) for n in range(2)]
    told = [dict(tree.said(result["session_id"]))["tool"] for result in results]
    assert ["was-run" in text for text in told] == [True, False]
    assert len(questions) == 2


@pytest.mark.parametrize("use_subprocess", [True, False])
async def test_who_answers_a_child_is_in_its_log(tree: Any, spawn_in: Any, use_subprocess: bool) -> None:
    """The person whom a child's question reached is named in the log of the child, wherever it runs."""
    _allow_commands(tree, "ask")
    tree.plan["tools"] = _BASH
    tree.script([], {"explorer": _command("echo was-run")})
    answers = iter(["Allow", "Deny", TimeoutError("late")])

    class Asked:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            answer: Any = next(answers)
            if isinstance(answer, TimeoutError):
                raise answer
            return str(answer)

    async with tree.run(environ=_environ()) as runtime:
        ada = person_at("chat", "ada")
        Approvers([Approver("terminal", Asked(), ada)]).connect(runtime.session.coordinator)
        results = [
            await spawn_in(runtime)("explorer", f"Go {n}.", use_subprocess=use_subprocess, tool_call_id=f"c{n}")
            for n in range(3)
        ]
    logged = [event for result in results for event in tree.events(result["session_id"])]
    decided = [(name, data["answered_by"]) for name, data in logged if name in ("approval:granted", "approval:denied")]
    assert decided == [
        ("approval:granted", ada),
        ("approval:denied", ada),
        ("approval:denied", {"kind": "timeout"}),
    ]


async def test_a_refused_child_names_every_module_from_its_process_too(tree: Any, spawn_in: Any) -> None:
    """The failure is the same wherever the child runs."""
    tree.plan["agents"]["explorer"]["tools"] = [{"module": "tool-absent"}, {"module": "tool-gone"}]
    async with tree.run(environ=_environ()) as runtime:
        with pytest.raises(ChildRefusedError) as raised:
            await spawn_in(runtime)("explorer", "Go.", use_subprocess=True)
    assert len(raised.value.failures) == 2


async def test_a_process_that_dies_is_told_and_the_child_goes_on_later(
    tree: Any, spawn_in: Any, eventually: Any
) -> None:
    """The parent goes on; the same call takes the child up where it was."""
    tree.script([], {"explorer": [{"delay_ms": 60_000, "text": "never"}]})
    pids: list[int] = []
    async with tree.run(environ=_environ()) as runtime:
        child = spawn_in(runtime).child_id("explorer", "c")
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: (tree.place / child / "transcript.jsonl").is_file())
        pids += _processes()
        for pid in pids:
            os.kill(pid, 9)
        with pytest.raises(ChildFailedError, match="without an answer"):
            await task
        assert tree.metadata(child)["incremental"] is True
        assert runtime.budget._children == 0
    assert pids


@pytest.mark.parametrize("way", ["immediate", "graceful", "task"])
async def test_a_wish_to_stop_crosses_to_the_process(
    tree: Any, spawn_in: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Its turn is closed in its log, its command is gone, and so is the process."""
    monkeypatch.setattr(remote, "_LAST_WORDS", 60.0)  # a busy machine may need more than is left to it
    _allow_commands(tree)
    tree.plan["tools"] = _BASH
    tree.script([], {"explorer": _command("echo $$ > pid; until test -e go; do sleep 0.05; done")})
    mark = tree.project / "pid"
    async with tree.run(environ=_environ()) as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: mark.is_file() and bool(mark.read_text().strip()))
        if way == "task":
            task.cancel()
        else:
            await runtime.session.coordinator.request_cancel(immediate=way == "immediate")
        child = spawn_in(runtime).child_id("explorer", "c")
        if way == "graceful":
            await eventually(lambda: "cancel:requested" in [event for event, _ in tree.events(child)])
            (tree.project / "go").touch()
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        if way == "graceful":
            assert task.result()["status"] == "cancelled"
        assert not _processes()
        await eventually(lambda: not Path(f"/proc/{int(mark.read_text())}").exists())
    events = [event for event, _ in tree.events(child)]
    assert events.count("execution:start") == events.count("execution:end") == 1
    assert events[-1] == "session:end"


def _processes() -> list[int]:
    """Return the processes of children that this one has started."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            is_ours = f"PPid:\t{os.getpid()}" in (folder / "status").read_text() or _is_below(folder)
        except OSError:
            continue
        if b"amplifier_foundation.children.process" in words and is_ours:
            found.append(int(folder.name))
    return found


def _is_below(folder: Path) -> bool:
    """Tell whether the parent of a process was started by this one."""
    above = next(line.split()[1] for line in (folder / "status").read_text().splitlines() if line.startswith("PPid"))
    return f"PPid:\t{os.getpid()}" in (Path("/proc") / above / "status").read_text()


async def test_nothing_of_a_process_is_left_in_the_temporary_folder(
    tree: Any, spawn_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket and its folder are gone when the child begins: no kill after that leaves them there."""
    import tempfile

    # Not in tmp_path, which may lie too deep for the name of a socket.
    seen: list[list[Path]] = []
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        place = Path(name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        told = {"environ": _environ(), "on_child_event": lambda *event: seen.append(list(place.glob("*/s")))}
        async with tree.run(**told) as runtime:
            result = await spawn_in(runtime)("explorer", "Go.", use_subprocess=True)
            assert result["status"] == "success"
        assert seen
        assert not any(seen)
        assert list(place.iterdir()) == []
    assert json.loads((tree.place / result["session_id"] / "results.json").read_text())["version"] == 1


async def test_a_deep_temporary_folder_is_no_obstacle(
    tree: Any, spawn_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child in a process of its own runs where the temporary folder lies too deep for the name of a socket."""
    import tempfile

    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with tree.run(environ=_environ()) as runtime:
        result = await spawn_in(runtime)("explorer", "Go.", use_subprocess=True)
    assert result["status"] == "success"
