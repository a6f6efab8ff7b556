"""Slash commands, typed one after the other into a real chat without a terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from jsonschema import Draft202012Validator

from amplifier_kit.log.record import schema

_ANSWERS = '{turns: [{text: Yes., usage: {input_tokens: 10, output_tokens: 2, cost_usd: "0.5"}}], repeat: true}'


class _Said(NamedTuple):
    answers: str
    told: str
    folder: Path

    @property
    def messages(self) -> list[dict[str, object]]:
        path = self.folder / "transcript.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


Talk = Callable[..., _Said]


@pytest.fixture
def talk(
    environment: dict[str, str],
    scripted: Callable[..., str],
    piped: Callable[..., subprocess.CompletedProcess[str]],
) -> Talk:
    """Return a function that types lines into a chat and gives what was answered and told."""

    def run(*lines: str, turns: str = _ANSWERS, resume: bool = False, tools: bool = False) -> _Said:
        arguments = ["--resume"] if resume else ["--bundle", scripted(turns, tools=tools)]
        result = piped(*arguments, "--trust", stdin="".join(f"{line}\n" for line in lines))
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr
        logs = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*/events.jsonl")
        ends = {path.parent: json.loads(path.read_text(encoding="utf-8").splitlines()[-1]) for path in logs}
        # By their own times: a copy may have been written in the same tick of the file system's clock.
        folder = max(ends, key=lambda path: str(ends[path]["ts"]))
        assert ends[folder]["event"] == "session:end"
        return _Said(result.stdout, result.stderr, folder)

    return run


def test_help_lists_every_command(talk: Talk) -> None:
    """`/help` names all commands and the keys."""
    from amplifier_app_cli.chat.commands import TABLE

    told = talk("/help").told
    for command in TABLE.values():
        shown = any(line.startswith((f"{command.usage}  ", command.usage + "\n")) for line in told.splitlines(True))
        assert shown, command.usage
        assert command.summary in told
    assert "not in this release" not in told.lower()
    assert "Enter: send" in told


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("/hepl", "did you mean '/help'?"), ("/provder", "did you mean '/provider'?"), ("/xyzzy", "/help lists")],
)
def test_unknown_commands_get_a_hint(talk: Talk, typed: str, hint: str) -> None:
    """A command that is none is told with the one that may be meant, and is not sent to the model."""
    said = talk(typed)
    assert f"there is no command {typed}" in said.told
    assert hint in said.told
    assert said.answers == ""


def test_status_and_cost(talk: Talk) -> None:
    """`/status` says what the session is, `/cost` what it has used."""
    said = talk("one", "/status", "/cost")
    for part in (said.folder.name, "bundle: scripted", "conversation: 1 turn, 2 messages", "trusted for this run"):
        assert part in said.told
    assert "last turn: 10 in · 2 out · $0.5000" in said.told
    assert "session: 10 in · 2 out · $0.5000" in said.told


def test_usage_goes_on_when_a_session_is_resumed(talk: Talk) -> None:
    """What earlier chats of the session used is part of its cost."""
    talk("one")
    assert "session: 20 in · 4 out · $1.00" in talk("two", "/cost", resume=True).told


def test_clear_forgets_and_keeps_a_backup(talk: Talk) -> None:
    """After `/clear` the model knows nothing of what was said; the transcript before is a backup."""
    said = talk("one", "/clear", "two", "/status")
    assert [message.get("content") for message in said.messages if message["role"] == "user"] == ["two"]
    assert "one" in (said.folder / "transcript.jsonl.backup").read_text(encoding="utf-8")
    assert "conversation: 1 turn," in said.told


def test_clear_counts_without_another_turn(talk: Talk) -> None:
    """What was cleared stays cleared when the session is resumed."""
    talk("one", "/clear")
    assert "conversation: 0 turns" in talk("/status", resume=True).told


def test_undo_takes_the_last_turn_back(talk: Talk) -> None:
    """`/undo` removes the last turn from the conversation, and says when there is none."""
    said = talk("one", "two", "/undo", "/undo", "/undo")
    assert "turn 2 is undone" in said.told
    assert "turn 1 is undone" in said.told
    assert "there is no turn to undo" in said.told
    assert said.messages == []


def test_undo_puts_files_back(talk: Talk, project: Path) -> None:
    """What tools wrote in a turn, with checkpoints, is put back with the turn, and only that."""
    from amplifier_foundation.sessions.checkpoints import Checkpoints

    first = talk("one", "two")
    notes = project / "notes.txt"
    notes.write_text("before", encoding="utf-8")
    checkpoints = Checkpoints(first.folder, turn=2)
    checkpoints.before_write(notes, tool="write_file")
    notes.write_text("after", encoding="utf-8")
    checkpoints.after_write(notes)
    said = talk("three", "/undo", resume=True)
    assert notes.read_text(encoding="utf-8") == "after"
    assert "wrote no files" in said.told
    said = talk("/undo", resume=True)
    assert notes.read_text(encoding="utf-8") == "before"
    assert "restored: " in said.told
    lines = [json.loads(line) for line in (said.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    undone = [line for line in lines if line["event"] == "session:undo"]
    assert undone[0]["data"] == {"turn": 3, "turns_left": 2}
    assert undone[1]["data"] == {
        "turn": 2,
        "turns_left": 1,
        "checkpoint": "c2",
        "restored_to": "c1",
        "put_back": [str(notes)],
        "removed": [],
        "left": [],
    }
    for line in undone:
        Draft202012Validator(schema()).validate(line)


def test_opening_a_chat_writes_nothing(talk: Talk) -> None:
    """A session that is resumed and left without a prompt keeps every file as it is."""
    folder = talk("one").folder

    def state() -> dict[str, tuple[int, bytes]]:
        files = [file for file in folder.rglob("*") if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}

    before = state()
    talk("/status", "/help", resume=True)
    assert state() == before


def test_save(talk: Talk, project: Path) -> None:
    """`/save` writes a file of the format its name says, or into the session's folder, and overwrites nothing."""
    said = talk("one", "/save talk.md", "/save talk.md", "/save")
    assert "Yes." in (project / "talk.md").read_text(encoding="utf-8")
    assert "exists already" in said.told
    [saved] = said.folder.glob("transcript_*.json")
    assert json.loads(saved.read_text(encoding="utf-8"))


def test_rename_and_fork(talk: Talk) -> None:
    """`/rename` names the session, `/fork` copies it up to a turn, under a name if one is given."""
    said = talk("one", "two", "/rename flowers", "/fork 1 only one", "/fork x", "/fork 9")
    assert "the session is called 'flowers'" in said.told
    assert ", 1 turn; amplifier resume" in said.told
    assert "a turn is a number" in said.told
    assert "turn 9 does not exist" in said.told
    names = [
        json.loads((folder / "metadata.json").read_text(encoding="utf-8")).get("name")
        for folder in said.folder.parent.iterdir()
        if (folder / "metadata.json").exists()
    ]
    assert sorted(names) == ["flowers", "only one"]


def test_tools_and_agents(talk: Talk) -> None:
    """`/tools` lists tools with what they need permission for; an empty list says so."""
    said = talk("/tools", "/agents", tools=True)
    assert "write_file" in said.told
    assert "filesystem.write" in said.told
    assert "no agents" in said.told
    assert "no tools" in talk("/tools").told


def test_skills(talk: Talk, project: Path) -> None:
    """Skills of project and product are listed, and one goes with the next prompt, by `/skill` or by its own name."""
    skill = project / ".agents" / "skills" / "baking"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: baking\ndescription: Bake bread.\n---\nKnead well.\n", encoding="utf-8")
    heard = "{text: Heard., expect: {contains: Knead well.}}"
    turns = f"turns: [{heard}, {heard}, {heard}]"
    said = talk(
        "/skills", "/skill baking", "bread, please", "/skill baking now", "/baking again", "/skill x", turns=turns
    )
    assert "Bake bread." in said.told
    assert "writing-bundles" in said.told
    assert said.answers == "Heard.\nHeard.\nHeard.\n"
    assert "there is no skill 'x'" in said.told


def test_provider(talk: Talk) -> None:
    """Providers are listed, pinned, let go, tested and asked for their models."""
    lines = ("/provider", "/provider use mok", "/provider use mock", "one", "/provider auto", "/provider test")
    said = talk(*lines, "/provider models", "/provider fly")
    assert "mock-model" in said.told
    assert "did you mean 'mock'?" in said.told
    assert "mock answers from now on" in said.told
    assert said.answers == "Yes.\n"
    assert "mock: ok, 1 model," in said.told
    assert "expected use NAME" in said.told


def test_model(talk: Talk) -> None:
    """`/model NAME` counts at once, and again when the session is resumed."""
    said = talk("/model", "/model mock-2", "one", "/model")
    assert "mock: mock-model" in said.told
    assert "does not list 'mock-2'" in said.told
    assert "mock: mock-2;" in said.told
    log = (said.folder / "events.jsonl").read_text(encoding="utf-8")
    assert '"model":"mock-2"' in log
    assert "mock: mock-2;" in talk("/model", resume=True).told


def test_goal(talk: Talk) -> None:
    """A goal is set, with a limit if one is given, shown and given up; nonsense is refused."""
    said = talk("/goal", "/goal --max-turns 3 tests pass", "/goal", "/goal off", "/goal off", "/goal --max-turns x y")
    assert "no goal is set" in said.told
    assert "goal: tests pass in at most 3 turns" in said.told
    assert "goal: tests pass\n" in said.told
    assert "the goal is cleared" in said.told
    assert "no goal was set" in said.told
    assert "must be 1 or more" in said.told


def test_goal_is_pursued(talk: Talk) -> None:
    """With a goal the loop works on until the judge is content."""
    turns = "turns: [{text: Working.}, {text: 'NO: not yet'}, {text: Done.}, {text: 'YES: it is'}]"
    said = talk("/goal all is done", "go", "/goal", turns=turns)
    assert "Working." in said.answers
    assert "Done." in said.answers
    assert "no goal is set" in said.told


def test_config(talk: Talk, project: Path) -> None:
    """What the session is made of is shown, tools are switched, settings are kept for later."""
    said = talk(
        "/config show",
        "/config hooks",
        "/config tools tool-trials",
        "/config tools disable run",
        "/tools",
        "/config diff",
        "/config tools enable run",
        "/config providers disable mock",
        "/config hooks disable hooks-logging",
        "/config set config.providers.provider-mock.config.default_model mock-9",
        "/config set nonsense.key 1",
        "/config tols",
        "/config save",
        tools=True,
    )
    assert '"module": "loop-streaming"' in said.told
    assert "hooks-logging" in said.told
    assert "./modules/tool-trials" in said.told or "modules/tool-trials" in said.told
    assert "run is disabled in this chat" in said.told
    assert "disabled: tools run" in said.told
    assert "run is enabled in this chat" in said.told
    assert "is the only provider" in said.told
    assert "hooks cannot be switched" in said.told
    assert "applies once the session is resumed" in said.told
    assert "/config: " in said.told
    assert "did you mean 'tools'?" in said.told
    assert "mock-9" in (said.folder / "settings.yaml").read_text(encoding="utf-8")


def test_folders(talk: Talk, project: Path) -> None:
    """Folders that may and must not be written to are listed and changed for the session."""
    said = talk(
        "/allowed-dirs", "/allowed-dirs add ../other", "/allowed-dirs", "/denied-dirs add secrets", "/denied-dirs x"
    )
    assert f"{project} (the project, always)" in said.told
    assert f"{project.parent / 'other'} is allowed for this session" in said.told
    assert f"{project.parent / 'other'} (session)" in said.told
    assert f"{project / 'secrets'} is denied" in said.told
    assert "/denied-dirs [list|add PATH|remove PATH]" in said.told


def test_context_and_compact(talk: Talk) -> None:
    """`/context` says how full the model's memory is; `/compact` says when there is nothing to do."""
    said = talk("one", "/context", "/compact")
    assert "2 messages" in said.told
    assert "last request: 1 message," in said.told or "last request: 2 messages" in said.told
    assert "nothing to do" in said.told


def test_config_is_an_overview_first(talk: Talk) -> None:
    """`/config` alone names the parts and fits on a screen; the whole plan is for who asks to see it."""
    said = talk("/config tools disable run", "/config", tools=True)
    told = said.told.partition("run is disabled in this chat\n")[2]
    assert "loop: loop-streaming\nmemory: context-simple\n" in told
    assert "hooks: hooks-redaction, hooks-logging, hooks-mode\n" in told
    assert "run (disabled)" in told
    assert "/config show" in told
    assert "{" not in told


def test_the_demo_answers_any_number_of_prompts(
    piped: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The script of the bundle `demo` begins again when it is over."""
    result = piped("--bundle", "demo", stdin="one\ntwo\nthree\nfour\nfive\n")
    assert result.returncode == 0, result.stderr
    assert "exhausted" not in result.stderr
    assert result.stdout.count("I am a script, not a model") == 3
