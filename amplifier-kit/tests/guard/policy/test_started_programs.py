"""Programs that start another one, whose options count as if it had been started alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.hazards import started
from amplifier_kit.guard.policy.rules import Rule, RuleSet


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python -m pytest -q", "pytest -q"), ("python3.12 -m pytest", "pytest"),
        (".venv/bin/python -m mypy x", "mypy x"), ("python3 -I -m pytest x", "pytest x"),
        ("python3 -IBm pytest x", "pytest x"), ("python3 -mpytest x", "pytest x"),
        ("python3 -X dev -Wignore -W error -m pytest", "pytest"), ("python3 -Xdev -m pytest", "pytest"),
        ("python --check-hash-based-pycs always -m pytest", "pytest"),
        ("uv run pytest", "pytest"), ("uv run python -m pytest x", "pytest x"), ("poetry run mypy", "mypy"),
        ("uv run --frozen pytest x", "pytest x"), ("uv run --with x pytest y", "pytest y"),
        ("uv run --with=x -p 3.12 pytest y", "pytest y"), ("uv run -- pytest", "pytest"),
        ("uv run -m pytest x", "pytest x"),
        ("uv --quiet run pytest", "pytest"), ("poetry -C x run pytest", "pytest"),
        ("hatch run test:pytest x", "pytest x"), ("hatch -e test run pytest", "pytest"),
        ("coverage run -m pytest x", "pytest x"), ("coverage run --source src --branch -m pytest x", "pytest x"),
        ("python -m coverage run -m pytest x", "pytest x"), ("uv run coverage run -m pytest", "pytest"),
    ],
)  # fmt: skip
def test_the_program_behind_another(words: str, found: str) -> None:
    """What a module or a runner starts is among what is judged, whatever options stand between."""
    assert tuple(found.split()) in list(started(tuple(words.split())))


@pytest.mark.parametrize(
    "words",
    ["python -m", "uv run", "python x.py -m pytest", "docker run pytest", "ls -m x", "python -c x -m pytest",
     "python -cm pytest", "python - -m pytest", "uv pip run pytest", "python"],
)  # fmt: skip
def test_what_starts_nothing_else(words: str) -> None:
    """What stands behind a script, or behind another program, is none of these options."""
    assert [each for each in started(tuple(words.split())) if each] == [tuple(words.split())]


def test_runners_of_runners_end() -> None:
    """A line of nothing but runners is read to some depth."""
    assert len(list(started(("uv", "run") * 50))) < 20


@pytest.mark.parametrize(
    ("rule", "plain", "harmful"),
    [
        ("bash -n *", "bash -n e.sh", ["bash -n +n e.sh", "bash -n +xn e.sh", "bash -n +o noexec e.sh"]),
        ("pip list *", "pip list --local", ["pip list --log-file x", "pip list --local-log=x", "pip list --log x"]),
    ],
)
def test_options_that_undo_what_a_rule_is_for_are_asked_for(rule: str, plain: str, harmful: list[str]) -> None:
    """What takes `-n` back runs the script, and a log by any of its names is a file that is written."""
    rules = RuleSet([Rule("allow", command=rule)], Path("/project"))
    verdicts = {
        each: rules.decide(facts("process.exec", {"command": each}, Path("/project"))).verdict
        for each in (plain, *harmful)
    }
    assert verdicts == {plain: "allow", **dict.fromkeys(harmful)}
