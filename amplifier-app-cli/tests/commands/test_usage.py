"""`amplifier usage`: what sessions used, children included, by several groups."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.usage import usage
from amplifier_foundation.paths import Home
from amplifier_kit.log.writer import SessionLog

ROOT, CHILD, OTHER = "root-session", "0123456789abcdef-0123456789abcdef_explorer", "other-session"
MAY, JUNE = "2026-05-31T12:00:00+00:00", "2026-06-01T12:00:00+00:00"

Make = Callable[..., None]
Told = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of the user be UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def home(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return an empty home of the program, and go into the project."""
    path = tmp_path / "amplifier"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.chdir(project)
    return Home(path)


@pytest.fixture
def make(home: Home, project: Path) -> Make:
    """Return a function that makes a session with answers `(time, model, tokens, dollars)`."""

    def write(name: str, *answers: tuple[str, str, int, str | None], place: Path = project, **more: Any) -> None:
        folder = home.sessions(place) / name
        sums = {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "calls_without_price": 0}
        with SessionLog(folder) as log:
            for at, model, tokens, cost in answers:
                used = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1, "cost_usd": cost}
                data = {"provider": "mock", "model": model, "usage": used}
                log.write({"event": "llm:response", "session_id": name, "ts": at, "data": data})
                log.write({"event": "tool:pre", "session_id": name, "ts": at, "data": {"text": "llm:response"}})
                sums["input_tokens"] += tokens
                sums["output_tokens"] += 1
                sums["cost_usd"] += float(cost or 0)
                sums["calls_without_price"] += cost is None
        facts = {**sums, "cost_usd": str(sums["cost_usd"])}
        metadata = {"session_id": name, "working_dir": str(place), "created": answers[0][0], "usage": facts, **more}
        path = folder / "metadata.json"
        path.write_text(json.dumps(metadata), encoding="utf-8")
        active = datetime.fromisoformat(answers[-1][0]).timestamp()
        os.utime(path, (active, active))

    return write


@pytest.fixture
def three(make: Make, tmp_path: Path) -> None:
    """Make a session of two days with a child, and one of another project."""
    make(ROOT, (MAY, "big", 100, "1.5"), (JUNE, "small", 10, "0.25"))
    make(CHILD, (JUNE, "small", 20, "0.5"), parent_id=ROOT, agent_name="explorer")
    make(OTHER, (MAY, "big", 1000, None), place=tmp_path / "elsewhere")


@pytest.fixture
def told(home: Home) -> Told:
    """Return a function that gives the report for programs."""

    def run(*arguments: str) -> dict[str, Any]:
        result = CliRunner().invoke(usage, [*arguments, "--json"], obj=App(), catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return run


def _sums(report: dict[str, Any], *groups: str) -> dict[Any, tuple[int, str | None]]:
    key = groups[0] if len(groups) == 1 else None
    return {
        row[key] if key else tuple(row[one] for one in groups): (row["usage"]["input_tokens"], row["cost_usd"])
        for row in report["rows"]
    }


@pytest.mark.usefixtures("three")
def test_by_day_and_model(told: Told) -> None:
    """A session of two days counts on both, each answer with its model; an unknown price is null, never zero."""
    assert _sums(told(), "day") == {"2026-05-31": (1100, None), "2026-06-01": (30, "0.75")}
    assert _sums(told("--by", "model"), "model") == {"mock/big": (1100, None), "mock/small": (30, "0.75")}
    both = _sums(told("--by", "day", "--by", "model"), "day", "model")
    assert both == {("2026-05-31", "mock/big"): (1100, None), ("2026-06-01", "mock/small"): (30, "0.75")}


@pytest.mark.usefixtures("three")
def test_by_session_project_and_agent(told: Told, project: Path, tmp_path: Path) -> None:
    """A child counts for the session at the top of its tree, or with `--by agent` for its agent."""
    assert _sums(told("--by", "session"), "session") == {ROOT: (130, "2.25"), OTHER: (1000, None)}
    by_project = _sums(told("--by", "project"), "project")
    assert by_project == {str(project): (130, "2.25"), str(tmp_path / "elsewhere"): (1000, None)}
    assert _sums(told("--by", "agent"), "agent") == {"main": (1110, None), "explorer": (20, "0.5")}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("group", ["day", "project", "model", "agent", "session"])
def test_the_total_is_the_same_however_it_is_split(told: Told, group: str) -> None:
    """Every answer is counted once: the rows of each group add up to the same total."""
    report = told("--by", group)
    assert (report["total"]["usage"]["input_tokens"], report["total"]["known_cost_usd"]) == (1130, "2.25")
    assert (report["total"]["sessions"], report["total"]["answers_without_price"]) == (3, 1)
    assert sum(row["usage"]["input_tokens"] for row in report["rows"]) == 1130


@pytest.mark.usefixtures("three")
def test_since(told: Told) -> None:
    """Only what was used since then counts, in a session that began before as well."""
    report = told("--since", "2026-06-01", "--by", "session")
    assert _sums(report, "session") == {ROOT: (30, "0.75")}
    assert report["total"]["sessions"] == 2
    assert told("--since", "1h")["rows"] == []


@pytest.mark.usefixtures("three")
def test_one_project(told: Told) -> None:
    """`--project` leaves the sessions of others out."""
    assert told("--project", ".")["total"]["usage"]["input_tokens"] == 130


@pytest.mark.usefixtures("three")
def test_for_people() -> None:
    """The table has a row for each value and the total; a cost with unknown parts has a plus."""
    result = CliRunner().invoke(usage, ["--by", "model"], obj=App(), catch_exceptions=False)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["MODEL", "SESSIONS", "INPUT", "OUTPUT", "CACHED", "COST"]
    assert lines[1:] == [
        ["mock/big", "2", "1,100", "2", "0", "$1.50+"],
        ["mock/small", "2", "30", "2", "0", "$0.7500"],
        ["total", "3", "1,130", "4", "0", "$2.25+"],
    ]


def test_nothing_was_used(home: Home) -> None:
    """Without sessions there is one line, and with --json an empty list."""
    result = CliRunner().invoke(usage, [], obj=App(), catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no session used a model yet" in result.stderr


def test_an_invalid_time(home: Home) -> None:
    """A time that is not understood is a usage error with examples."""
    result = CliRunner().invoke(usage, ["--since", "yesterday-ish"], obj=App())
    assert result.exit_code == 2
    assert "7d" in result.stderr


def test_a_log_that_cannot_be_read(make: Make, told: Told, home: Home, project: Path) -> None:
    """A session whose log is unusable counts with what its metadata say, under no model."""
    make(ROOT, (MAY, "big", 100, "1.5"), (JUNE, "small", 10, "0.25"))
    log = home.sessions(project) / ROOT / "events.jsonl"
    log.unlink()
    log.mkdir()
    assert _sums(told("--by", "model"), "model") == {"unknown": (110, "1.75")}


def test_published_sessions_count_by_their_log(make: Make, told: Told) -> None:
    """A session without counts in its metadata, as other programs leave them, is counted by its log."""
    make(ROOT, (MAY, "big", 100, "1.5"), usage=None)
    assert _sums(told(), "day") == {"2026-05-31": (100, "1.5")}


def test_now_is_a_day(make: Make, told: Told) -> None:
    """What was used a moment ago counts today."""
    make(ROOT, (datetime.now(UTC).isoformat(), "big", 100, "1.5"))
    assert told("--since", "today")["total"]["usage"]["input_tokens"] == 100
