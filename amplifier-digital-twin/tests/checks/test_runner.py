"""Checks of a profile, run one after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_digital_twin.checks.context import CheckContext
from amplifier_digital_twin.checks.outcome import Outcome, verdict
from amplifier_digital_twin.checks.runner import run_checks
from amplifier_digital_twin.profile.model import (
    Check,
    Expectation,
    FileExpectation,
    HttpProbe,
    JsonlExpectation,
    Profile,
)
from amplifier_digital_twin.recorder import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Make a log."""
    return Recorder(tmp_path / "log.jsonl")


async def _run(context: CheckContext, recorder: Recorder, *checks: Check) -> list[Outcome]:
    return await run_checks(Profile("x", Path("/x.yaml"), checks=checks), context, recorder)


@pytest.mark.parametrize(
    ("run", "expect"),
    [
        ("true", Expectation()),
        ("exit 3", Expectation(exit=3)),
        ("exit 9", Expectation(exit=None)),
        ("echo one; echo two >&2", Expectation(stdout="one", stderr="two")),
        ("""echo '{"a": 1, "b": 2}'""", Expectation(stdout_json={"a": 1})),
        ("echo x > ~/made", Expectation(files=(FileExpectation("/home/user/made", contains="x"),))),
        ("""echo '{"event": "e"}' > ~/x.jsonl""", Expectation(jsonl=(JsonlExpectation("~/*.jsonl", ("e",)),))),
        ("true", Expectation(refused=("unlisted.example",))),
        ('test "$WHO" = user', Expectation()),
    ],
)
async def test_commands_that_do_what_is_expected(context: Any, recorder: Any, run: str, expect: Expectation) -> None:
    """Each expectation by itself holds."""
    (outcome,) = await _run(context, recorder, Check("c", run=run, expect=expect))
    assert (outcome.is_ok, outcome.reason) == (True, "")


@pytest.mark.parametrize(
    ("run", "expect", "words"),
    [
        ("echo because >&2; exit 3", Expectation(), "the exit code is 3, not 0 (because)"),
        ("true", Expectation(exit=1), "the exit code is 0, not 1"),
        ("echo one", Expectation(stdout="two"), "stdout does not contain 'two'"),
        ("echo one", Expectation(stderr="one"), "stderr does not contain 'one'"),
        ("echo no", Expectation(stdout_json={}), "stdout is no JSON"),
        ("echo '{}'", Expectation(stdout_json={"a": 1}), "stdout has no 'a'"),
        ("true", Expectation(files=(FileExpectation("/home/user/made"),)), "/home/user/made: it is not there"),
        ("true", Expectation(jsonl=(JsonlExpectation("~/*.jsonl"),)), "no file was found"),
        ("true", Expectation(refused=("other.example",)), "the gateway refused nothing to 'other.example'"),
    ],
)
async def test_commands_that_do_not(context: Any, recorder: Any, run: str, expect: Expectation, words: str) -> None:
    """Each expectation can fail, and says how."""
    (outcome,) = await _run(context, recorder, Check("c", run=run, expect=expect))
    assert not outcome.is_ok
    assert words in outcome.reason


async def test_a_command_that_hangs_is_ended(context: Any, recorder: Any) -> None:
    """Its timeout is the reason, even where any exit code would do."""
    check = Check("c", run="sleep 60", timeout=0.2, expect=Expectation(exit=None))
    (outcome,) = await _run(context, recorder, check)
    assert outcome.reason == "it was not done after 0.2 s and was ended"


async def test_checks_go_on_after_one_that_failed(context: Any, recorder: Any) -> None:
    """All are run, and the verdict is about all of them."""
    outcomes = await _run(context, recorder, Check("a", run="false"), Check("b", run="true"))
    assert [outcome.is_ok for outcome in outcomes] == [False, True]
    assert verdict(outcomes) == "fail"
    assert verdict(outcomes[1:]) == "pass"


def test_no_checks_prove_nothing() -> None:
    """An empty list is not a pass."""
    assert verdict([]) == "fail"


async def test_a_twin_that_is_gone_fails_every_check(context: Any, recorder: Any) -> None:
    """What cannot be looked at is not passed."""
    context.twin.is_running = False
    checks = (Check("a", run="true"), Check("b", expect=Expectation(files=(FileExpectation("/x", exists=False),))))
    outcomes = await _run(context, recorder, *checks)
    assert [outcome.is_ok for outcome in outcomes] == [False, False]
    assert outcomes[0].details["error"]["code"] == "not_running"


async def test_a_fault_in_a_check_is_its_reason(context: Any, recorder: Any) -> None:
    """Whatever is raised, the check fails and the others run."""

    def broken() -> frozenset[str]:
        raise ZeroDivisionError("oops")

    outcomes = await _run(replace(context, refused_hosts=broken), recorder, Check("a", run="true"))
    assert outcomes[0].reason == "the check itself failed: ZeroDivisionError: oops"


async def test_being_cancelled_is_not_a_failure(context: Any, recorder: Any) -> None:
    """Who gives up gets no outcome."""
    task = asyncio.create_task(_run(context, recorder, Check("a", run="sleep 600")))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_evidence_of_a_command_has_no_secret(context: Any, recorder: Any, secret: str) -> None:
    """What a command wrote is kept with its outcome; a secret in it is not, nor in what is returned."""
    (context.twin.home / "key").write_text(f"{secret}\n", encoding="utf-8")
    outcomes = await _run(context, recorder, Check("c", run="cat ~/key; cat ~/key >&2; exit 1"))
    folder = context.evidence.folder / "checks"
    assert (folder / "c.out").read_text(encoding="utf-8") == "[secret]\n"
    assert json.loads((folder / "c.json").read_text(encoding="utf-8"))["details"]["exit_code"] == 1
    kept = b"".join(path.read_bytes() for path in folder.iterdir()) + recorder.path.read_bytes()
    assert b"geheim" not in kept + repr(outcomes).encode()


async def test_http_checks(context: Any, recorder: Any, server: str) -> None:
    """A request is made from outside, and the answer kept."""
    outcomes = await _run(
        context, recorder, Check("good", http=HttpProbe(f"{server}/json")), Check("bad", http=HttpProbe(f"{server}/no"))
    )
    assert [outcome.is_ok for outcome in outcomes] == [True, False]
    assert (context.evidence.folder / "checks" / "good.out").read_bytes().startswith(b'{"status"')


def _finding(name: str, is_ok: bool = True) -> Any:
    return SimpleNamespace(
        name=name,
        version="1",
        location="/l",
        source="git",
        expected="a",
        found="a" if is_ok else "b",
        is_ok=is_ok,
        reason="" if is_ok else "commit b was not served",
    )


@pytest.mark.parametrize(
    ("asked", "findings", "reason"),
    [
        ("all", [_finding("a")], ""),
        ("all", [_finding("a"), _finding("b", False)], "b 1: commit b was not served"),
        ("all", [], "no installed package was found"),
        (("My_Pkg",), [_finding("my-pkg")], ""),
        (("a", "b"), [_finding("a")], "b is not installed"),
    ],
)
async def test_provenance_checks(context: Any, recorder: Any, asked: Any, findings: list[Any], reason: str) -> None:
    """Every package that was asked for must be there and come from where it was served."""

    async def provenance(names: Any) -> Sequence[Any]:
        assert names == asked
        return findings

    (outcome,) = await _run(replace(context, provenance=provenance), recorder, Check("p", provenance=asked))
    assert (outcome.is_ok, outcome.reason) == (not reason, reason)


async def test_provenance_that_cannot_be_known_fails(context: Any, recorder: Any) -> None:
    """Without anything to compare with, nothing is proved."""
    (outcome,) = await _run(context, recorder, Check("p", provenance="all"))
    assert not outcome.is_ok


async def test_outcomes_are_logged_and_told(context: Any, recorder: Any) -> None:
    """The log of the universe has each check, and whoever listens hears of it."""
    await _run(context, recorder, Check("a", run="false"))
    assert recorder.told == ["check a", "check a: FAIL: the exit code is 1, not 0"]
    events = [json.loads(line) for line in recorder.path.read_text(encoding="utf-8").splitlines()]
    assert [(event["name"], event["ok"]) for event in events if event["event"] == "check"] == [("a", False)]
