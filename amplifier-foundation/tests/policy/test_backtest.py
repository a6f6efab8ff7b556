"""Rules held against the past: what they would have asked or denied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_foundation.policy.history import PastAction, Then, backtest
from amplifier_foundation.policy.permissions import Permissions

Load = Callable[..., Permissions]


def _past(project: Path, command: str, then: Then, is_granted: bool | None = True, **more: Any) -> PastAction:
    details = {"tool_name": "bash", "tool_input": {"command": command}, **more}
    return PastAction("process.exec", details, then, is_granted, "", "", project, "s", None)


def test_then_and_now(load: Load, project: Path) -> None:
    """Every action is counted by what became of it then and what the rules say now, with the rule that says it."""
    permissions = load(
        user="rules: [{command: 'make *', verdict: allow}, {command: 'rm *', verdict: deny, reason: never}]\n"
    )
    actions = [
        _past(project, "make", "asked", tool_call_id="1"),
        _past(project, "make", "asked", tool_call_id="2"),
        _past(project, "rm x", "asked"),
        _past(project, "ls", "asked"),
        _past(project, "ls", "unjudged"),
        _past(project, "rm y", "denied", is_granted=False),
    ]
    found = backtest(actions, lambda project: permissions)
    assert found.total == 6
    assert found.counts == {
        ("asked", "allow"): 2,
        ("asked", "deny"): 1,
        ("asked", "ask"): 1,
        ("unjudged", "ask"): 1,
        ("denied", "deny"): 1,
    }
    assert found.how_many("asked") == 4
    assert found.how_many(now="deny") == 2
    (milder,) = found.examples("milder")
    assert (milder.times, milder.past.shown, milder.now.verdict) == (2, "make", "allow")
    assert [each.past.shown for each in found.examples("stricter")] == ["rm x", "ls"]
    assert found.examples("stricter")[0].now.reason.startswith("never (")
    assert len(found.examples("same", 1)) == 1


def test_each_project_has_its_own_rules(load: Load, project: Path, tmp_path: Path) -> None:
    """Actions are judged by the rules of their project, which are asked for once."""
    asked: list[Path] = []

    def permissions_of(folder: Path) -> Permissions:
        asked.append(folder)
        return load()

    backtest([_past(project, str(n), "asked") for n in range(3)] + [_past(tmp_path, "ls", "asked")], permissions_of)
    assert asked == [project, tmp_path]


def test_nothing_to_judge(load: Load) -> None:
    """Without a past there is nothing to say."""
    found = backtest([], lambda project: load())
    assert (found.total, found.examples("stricter")) == (0, ())
