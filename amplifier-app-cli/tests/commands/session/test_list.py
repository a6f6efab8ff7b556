"""`amplifier session list`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from amplifier_app_cli.commands.session import facts
from amplifier_app_cli.ui.layout import columns

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"
THREE = "33333333-0000-4000-8000-000000000003"
CHILD = "0000000000000000-1111111111111111_explorer"
#: What a list must do without.
HEAVY = ("pydantic", "asyncio", "prompt_toolkit", "rich", "yaml", "amplifier_core.models", "anthropic", "openai", "mcp")


def test_a_session_that_ran_is_listed(amplifier: Amplifier) -> None:
    """After a run the list has its id, bundle, turns and prompt on standard output."""
    assert amplifier("run", "hello there").returncode == 0
    result = amplifier("session", "list")
    assert result.returncode == 0, result.stderr
    heading, line = result.stdout.splitlines()
    assert heading.split()[:3] == ["ID", "LAST", "ACTIVE"]
    assert len(line.split()[0]) == 36
    assert '"hello there"' in line
    assert result.stderr == ""


def test_json_has_everything_in_full(give: Give, made: Made, project: Path) -> None:
    """Programs get full ids, paths, ISO times, usage and cost, and how many there are in all."""
    prompt = "p" * 150
    folder = made(ONE, prompt, name="garden", usage={"input_tokens": 7, "cost_usd": "0.0123"})
    made(TWO, "older", age=60)
    result = give("list", "-n", "1", "--format", "json")
    document = json.loads(result.stdout)
    (record,) = document["sessions"]
    assert document["total"] == 2
    assert record["updated"].endswith("+00:00")
    expected = {"id": ONE, "name": "garden", "project": str(project), "folder": str(folder), "turn_count": 1}
    expected |= {"first_prompt": prompt, "bundle": "garden", "model": "provider-mock/m", "cost_usd": "0.0123"}
    expected |= {"usage": {"input_tokens": 7, "cost_usd": "0.0123"}, "created": "2026-01-01T00:00:00+00:00"}
    expected |= {"parent_id": None, "is_child": False, "is_fork": False, "damaged": None}
    assert expected.items() <= record.items()


def test_the_model_is_the_one_that_answered(give: Give, made: Made) -> None:
    """The model of the newest answer is shown; before the first answer, the model or provider that is configured."""
    made(ONE, "hello", provider="provider-mock", model="provider-mock/planned", last_model="provider-mock/answered")
    made(TWO, "hello", age=60, provider="provider-mock", model=None)
    records = json.loads(give("list", "--json").stdout)["sessions"]
    assert [record["model"] for record in records] == ["provider-mock/answered", "provider-mock"]
    assert "provider-mock/answered" in give("list").stdout
    assert json.loads(give("show", ONE, "--json").stdout)["model"] == "provider-mock/answered"
    assert "(default)" not in give("show", TWO).stdout


def test_a_run_records_the_model_that_answers(amplifier: Amplifier) -> None:
    """A session whose plan names no model has that of its answers, and so has one whose metadata do not say it."""
    assert amplifier("run", "hello").returncode == 0
    [record] = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    assert record["model"] == "provider-mock/mock-model"
    file = Path(record["folder"], "metadata.json")
    metadata = json.loads(file.read_text(encoding="utf-8"))
    assert metadata.pop("last_model") == "provider-mock/mock-model"
    file.write_text(json.dumps(metadata), encoding="utf-8")
    assert json.loads(amplifier("session", "list", "--json").stdout)["sessions"][0]["model"] == record["model"]


def test_costs_include_children(give: Give, made: Made) -> None:
    """Lists, trees and details add what the children used, at any depth; forks count for themselves."""
    made(ONE, "hello", usage={"input_tokens": 7, "cost_usd": "0.10"})
    made("c1", "task", parent_id=ONE, agent_name="a", usage={"input_tokens": 20, "cost_usd": "0.20"})
    made("c2", "task", parent_id="c1", agent_name="b", usage={"input_tokens": 300, "cost_usd": "0.40"})
    made("fork", "hello", age=60, parent_id=ONE, forked_from_turn=1, usage={"input_tokens": 9, "cost_usd": "9"})
    total = {"input_tokens": 327, "cost_usd": "0.70"}
    expected = {"usage": total, "cost_usd": "0.70", "own_cost_usd": "0.10"}
    expected["own_usage"] = {"input_tokens": 7, "cost_usd": "0.10"}
    listed = json.loads(give("list", "--json").stdout)["sessions"]
    [tree] = json.loads(give("list", "--json", "--tree").stdout)["sessions"]
    shown = json.loads(give("show", ONE, "--json").stdout)
    for record in (listed[0], tree, shown):
        assert expected.items() <= record.items()
    assert (listed[1]["id"], listed[1]["cost_usd"]) == ("fork", "9")
    assert tree["children"][0]["cost_usd"] in ("0.60", "9")
    assert "$0.7000" in give("list").stdout
    text = give("show", ONE).stdout
    assert re.search(r"Cost: +\$0\.7000\n +Without children: +\$0\.1000\n", text), text


@pytest.fixture
def seen(at_terminal: Callable[..., Any]) -> Callable[..., list[str]]:
    """Return a function that gives the lines that `session` prints on a terminal, 80 columns wide by default."""

    def run(*arguments: str, width: int = 80) -> list[str]:
        child = at_terminal("session", *arguments, dimensions=(24, width))
        output = child.read()
        assert child.wait() == 0, output
        assert "\x1b" not in output
        assert max(columns(line) for line in output.splitlines()) <= width
        return list(output.splitlines())

    return run


def test_a_terminal_gets_short_times_and_models(seen: Callable[..., list[str]], made: Made) -> None:
    """Of today there is the hour, of other days the day, and a default model is its provider."""
    made(ONE, "hello", provider="provider-mock", model=None)
    made(TWO, "long ago", age=3 * 366 * 86400)
    newest, oldest = seen("list")[1:]
    assert re.match(r"11111111 +\d\d:\d\d +1 ", newest) or re.match(r"11111111 +\d\d-\d\d \d\d:\d\d", newest)
    assert re.match(r"22222222 +\d{4}-\d\d-\d\d +1 ", oldest)
    assert "provider-mock  " in newest
    assert "default" not in newest


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        (datetime(2026, 5, 4, 9, 5), "09:05"),
        (datetime(2026, 5, 3, 23, 59), "05-03 23:59"),
        (datetime(2025, 5, 4, 9, 5), "2025-05-04"),
        (None, "-"),
    ],
)
def test_short_times(monkeypatch: pytest.MonkeyPatch, moment: datetime | None, shown: str) -> None:
    """A time has no more parts than are needed to tell it from others."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            """Return one noon."""
            return datetime(2026, 5, 4, 12, 0)

    monkeypatch.setattr(facts, "datetime", Clock)
    assert facts.when_short(moment) == shown


def test_children_on_a_terminal(seen: Callable[..., list[str]], made: Made, give: Give) -> None:
    """Agent and task come first, the task is what gives way, and the short id at the end finds the session."""
    made(ONE, "root")
    made(CHILD, "look at " + "everything " * 20, parent_id=ONE, agent_name="explorer")
    other = CHILD.replace("1111111111111111", "1111211111111111")
    made(other, "short", parent_id=ONE, agent_name="explorer")
    root, *children = seen("list", "--tree")
    assert root.startswith("11111111 ")
    for line in children:
        assert re.match(r'[├└]─ \[explorer\] "', line)
        assert re.search(r" 1 turn - 0000000000000000-1111[12]$", line)
        assert give("show", line.split()[-1]).exit_code == 0
    assert sum("everything" in line and "…" in line for line in children) == 1


def test_children_on_a_narrow_terminal(seen: Callable[..., list[str]], made: Made) -> None:
    """However long an agent's name and task are, one sees how it ended and what it cost, and nothing is cut twice."""
    made(ONE, "root")
    usage = {"cost_usd": "0.25"}
    folder = made(CHILD, "be brief " * 20, parent_id=ONE, agent_name="amplifier:a-name-for-wide-ones", usage=usage)
    begun, ended = ('{"event": "session:start", "data": {}}', '{"event": "session:end", "status": "completed"}')
    (folder / "events.jsonl").write_text(f"{begun}\n{ended}\n", encoding="utf-8")
    for width in (60, 72, 80, 100):
        _, child = seen("list", "--tree", width=width)
        assert child.startswith("└─ [amplifier:a-name-for-wi…] completed ")
        assert "$0.2500" in child or width < 72
        assert "……" not in child


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (None, "-"),
        ({"input_tokens": 5, "calls_without_price": 2}, "-"),
        ({"cost_usd": "0"}, "$0.00"),
        ({"cost_usd": "0.00001"}, "<$0.0001"),
        ({"cost_usd": "0.0123"}, "$0.0123"),
        ({"cost_usd": "12.3456", "calls_without_price": 1}, "$12.35+"),
        ({"cost_usd": "garbage"}, "-"),
    ],
)
def test_cost_is_shown_as_far_as_it_is_known(give: Give, made: Made, usage: object, shown: str) -> None:
    """What is free, what is not known, and what is only a part of it look different."""
    made(ONE, "x", bundle="bundle:b", model="m", **({"usage": usage} if usage else {}))
    assert give("list").stdout.splitlines()[1].split()[4] == shown


def test_the_newest_come_first_and_the_rest_is_counted(give: Give, made: Made) -> None:
    """A limit cuts the list, says so on standard error, and 0 means all."""
    for number, session_id in enumerate((ONE, TWO, THREE)):
        made(session_id, "x", age=number * 60)
    result = give("list", "--limit", "2")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [ONE, TWO]
    assert "2 of 3 sessions" in result.stderr
    assert len(give("list", "-n", "0").stdout.splitlines()) == 4
    assert give("list", "-n", "-1").exit_code == 2


def test_an_empty_list_says_what_to_do(give: Give, made: Made, tmp_path: Path) -> None:
    """Without sessions standard output is empty, or an empty list for programs, and standard error helps."""
    result = give("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "amplifier run" in result.stderr
    assert "--all-projects" in result.stderr
    assert json.loads(give("list", "--format", "json").stdout) == {"sessions": [], "total": 0}


def test_other_projects_are_listed_when_asked_for(give: Give, made: Made, tmp_path: Path) -> None:
    """`--project` shows those of one folder, which need not exist, and `--all-projects` all, with their folder."""
    other = tmp_path / "gone project"
    made(ONE, "here")
    made(TWO, "there", working_dir=str(other))
    assert ONE in (here := give("list").stdout)
    assert TWO not in here
    assert TWO in give("list", "--project", str(other)).stdout
    everything = give("list", "--all-projects").stdout
    assert ONE in everything
    assert str(other) in everything
    assert give("list", "--all-projects", "--project", str(other)).exit_code == 2


def test_damaged_sessions_are_shown(give: Give, made: Made) -> None:
    """A session whose metadata are garbage is in the list, with the reason."""
    folder = made(ONE, "x")
    (folder / "metadata.json").write_text("{not json", encoding="utf-8")
    assert f"(damaged) {folder}/metadata.json:1 is damaged" in give("list").stdout
    (record,) = json.loads(give("list", "--format", "json").stdout)["sessions"]
    assert record["id"] == ONE
    assert "is damaged" in record["damaged"]


def test_names_cannot_steer_the_terminal(give: Give, made: Made) -> None:
    """Escapes in names, prompts and models are taken out of the text, and escaped in JSON."""
    made(ONE, "x", name="a\x1b[31mred\x9b2J", model="m\x1b]0;title\x07", first_prompt="p")
    for arguments in (("list",), ("list", "--tree"), ("list", "--format", "json"), ("show", ONE)):
        output = give(*arguments).stdout
        assert not {"\x1b", "\x9b", "\x07"} & set(output)
    assert "ared2J" in give("list").stdout


def test_a_tree_shows_what_came_of_a_session(give: Give, made: Made) -> None:
    """Started sessions and forks stand below where they came from, in text and as nested records."""
    made(ONE, "root")
    made(CHILD, "look", parent_id=ONE, agent_name="explorer")
    made(TWO, "root", parent_id=ONE, forked_from_turn=1, forked_at="2026-01-02T00:00:00+00:00", name="copy")
    made("0000000000000000-2222222222222222_deep", "x", parent_id=CHILD, agent_name="deep")
    made(THREE, "other", age=60)
    assert CHILD not in give("list").stdout
    lines = give("list", "--tree").stdout.splitlines()
    assert [line[: line.index("2026")].rstrip() for line in lines] == [
        ONE,
        f'├─ {CHILD} [explorer] "look"',
        '│  └─ 0000000000000000-2222222222222222_deep [deep] "x"',
        f"└─ {TWO} [fork]",
        THREE,
    ]
    document = json.loads(give("list", "-t", ONE[:4], "--format", "json").stdout)
    (root,) = document["sessions"]
    assert [one["id"] for one in root["children"]] == [CHILD, TWO]
    assert root["children"][1]["is_fork"] is True
    assert len(give("list", "-t", CHILD).stdout.splitlines()) == 2
    assert give("list", "--tree", "none").exit_code == 2


def test_what_a_session_cost_that_was_cut_off_is_in_its_log(give: Give, made: Made) -> None:
    """Notes have what was used when a turn ends: of one that did not end, the tree and its page ask the log."""
    answered = '{"event": "llm:response", "data": {"usage": {"input_tokens": 5, "cost_usd": "0.1"}}}\n'
    made(ONE, "root")
    folder = made(CHILD, "look", parent_id=ONE, agent_name="explorer", incremental=True)
    (folder / "events.jsonl").write_text(answered, encoding="utf-8")
    assert "$0.1000" in give("list", "--tree").stdout
    (root,) = json.loads(give("list", "--tree", "--format", "json").stdout)["sessions"]
    assert root["children"][0]["cost_usd"] == "0.1"
    assert json.loads(give("show", CHILD, "--format", "json").stdout)["cost_usd"] == "0.1"


def test_a_tree_that_goes_in_circles_ends(give: Give, made: Made) -> None:
    """Sessions whose notes say that they come from each other are all shown, once each."""
    made(ONE, "x", parent_id=TWO)
    made(TWO, "x", parent_id=ONE)
    output = give("list", "--tree").stdout
    assert (output.count(ONE), output.count(TWO)) == (1, 1)
    assert json.loads(give("list", "--tree", "--format", "json").stdout)["total"] == 1


def test_failures_are_one_line_and_a_record(give: Give, home: object, environment: dict[str, str]) -> None:
    """A folder that cannot be read ends the command with 1, a line on standard error, and a record for programs."""
    projects = Path(environment["HOME"]) / ".amplifier/projects"
    projects.parent.mkdir()
    projects.write_text("in the way", encoding="utf-8")
    result = give("list", "--format", "json")
    assert result.exit_code == 1
    assert result.stderr.startswith("amplifier: ")
    assert json.loads(result.stdout)["code"] == "sessions_unreadable"


@pytest.mark.parametrize("command", [("list",), ("cleanup", "--force")])
def test_the_home_of_nobody_is_one_line(give: Give, command: tuple[str, ...]) -> None:
    """A project below the home of a user that does not exist is an error with the text that was given, no crash."""
    result = give(*command, "--project", "~no-such-user/x")
    assert result.exit_code == 1
    assert result.stderr.startswith("amplifier: ~no-such-user/x: cannot tell which home directory is meant")
    assert result.stderr.count("\n") == 1


def test_a_list_imports_nothing_heavy(amplifier_process: Amplifier, made: Made) -> None:
    """Listing sessions imports no model, no event loop, no terminal library, no YAML and no SDK."""
    made(ONE, "x", usage={"cost_usd": "1"})
    result = amplifier_process("session", "list", PYTHONPROFILEIMPORTTIME="1")
    assert ONE in result.stdout
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if "|" in line}
    assert "amplifier_foundation.sessions.store" in imported
    assert not [name for name in imported for heavy in HEAVY if f"{name}.".startswith(f"{heavy}.")]


def test_on_a_terminal_ids_are_short_and_lines_fit(seen: Callable[..., list[str]], made: Made) -> None:
    """A person sees ids long enough to be distinguished, and no line is wider than the terminal."""
    made("aaaaaaaa-1000-4000-8000-000000000001", "x " * 100)
    made("aaaaaaaa-2000-4000-8000-000000000002", "日本語" * 40)
    assert {line.split()[0] for line in seen("list")[1:]} == {"aaaaaaaa-1", "aaaaaaaa-2"}
