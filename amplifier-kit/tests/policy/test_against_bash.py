"""The parser held against bash itself: whatever bash runs or writes, the parser has listed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_kit.policy import Segment, ShellParse
from amplifier_kit.policy.segment import HOLE

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="no bash to compare with")

PIECES = st.sampled_from(
    [
        "aa", "bb", "rm", " ", " ", "\t", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "$(", "`", "<(", '"',
        "'", "\\", "\\\n", "$x", "${x}", "$'rm'", "$'\\x72m'", '$"', "#", " #", "<<E\n", "\nE\n", "<<'E'\n", "<<<",
        ">f", "2>g", "2>&1", ">&2", "<f", "&>f", "!", "x=1", "X=rm ", "x='rm y'", "{aa,bb}", "*", "~", "env ",
        "command ", "exec ", "time ", "xargs ", "timeout 5 ", "sh -c ", "[ ", " ]", "-n 1 ", "$((1))", "\\'", "''",
        "r", "m", "\\\\", "\\\\\n", "é", "$#", "a", "1", "=", "-", "%", "$(aa)", '"$(bb)"', '"$x"', "if ", "; then ",
    ]
)  # fmt: skip
LEAVES = st.lists(PIECES, min_size=1, max_size=6).map("".join)
FORMS = st.sampled_from(
    [
        "aa {} {}", "{}; {}", "{} && {}", "aa $({}) {}", 'aa "{}" {}', "aa '{}' {}", "aa <<E\n{}\nE\n{}",
        "for x in {}; do aa $x {}; done", "{} | {}", "{} # {}", "sh -c '{}' {}", "xargs {} {}", "timeout 5 {} {}",
        "aa `{}` {}", "aa >f {} {}", "aa <(bb {}) {}", "if aa {}; then bb {}; fi", "x={}; aa {}", 'aa "$(bb {})" {}',
    ]
)  # fmt: skip
LINES = st.recursive(LEAVES, lambda inner: st.builds(str.format, FORMS, inner, inner), max_leaves=5)


class Stage:
    """A folder with programs that only write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.cwd, self.log = folder / "bin", folder / "cwd", folder / "log"
        self.bin.mkdir()
        for name in ("aa", "bb", "rm"):
            program = self.bin / name
            text = f"#!/bin/sh\nprintf '%s\\0' \"${{0##*/}}\" \"$@\" '<END>' >> '{self.log}'\n"
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)

    def play(self, command: str) -> tuple[list[list[str]], set[str]]:
        """Run a line; return how the programs were called, and the files that are there now."""
        shutil.rmtree(self.cwd, ignore_errors=True)
        self.cwd.mkdir()
        self.log.unlink(missing_ok=True)
        process = subprocess.Popen(
            [str(BASH), "-c", command],
            cwd=self.cwd,
            env={"PATH": str(self.bin), "HOME": str(self.cwd), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            pass  # What it did until then counts.
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # Nothing of it is left.
            process.wait()
        data = self.log.read_bytes().decode("utf-8", "replace") if self.log.exists() else ""
        return [call.split("\0")[:-1] for call in data.split("<END>\0") if call], set(os.listdir(self.cwd))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """One stage for all lines."""
    return Stage(tmp_path_factory.mktemp("stage"))


def is_listed(call: list[str], segments: list[Segment]) -> bool:
    """Tell whether a call is one of the commands, with anything in the place of a hole."""
    ran = " ".join(call)
    for segment in segments:
        pattern = re.escape(" ".join(segment.words or ())).replace(re.escape(HOLE), ".*").replace("\\~", ".*")
        # What is filled in may be nothing at all, not even a word.
        if re.fullmatch(pattern.replace("\\ .*", "( .*)?"), ran, re.DOTALL) or re.fullmatch(pattern, ran, re.DOTALL):
            return True
    return False


@given(LINES)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_bash_runs_nothing_that_is_not_listed(stage: Stage, command: str) -> None:
    """What bash runs and writes for a line without opaque parts is among its segments and redirects."""
    segments = ShellParse().segments(command)
    if not segments or any(segment.is_opaque for segment in segments):
        return
    calls, files = stage.play(command)
    for call in calls:
        assert is_listed(call, segments), (command, call, segments)
    writes = {redirect.target for segment in segments for redirect in segment.redirects if redirect.kind == "write"}
    assert files <= writes, (command, files, segments)


@pytest.mark.parametrize(
    "command",
    [
        "aa; bb && rm x", "aa $(bb y)", "r\\m x", "$'\\x72m' x", "aa >f x", "xargs rm </dev/null", "sh -c 'rm x'",
        'aa " " x', 'aa "x\n\t" y', "aa <<E\n$(bb)\nE\nrm x", "aa 2>/dev/null x", "timeout 5 aa", "x=1; aa $x",
    ],
)  # fmt: skip
def test_comparison_sees_the_calls(stage: Stage, command: str) -> None:
    """The comparison is worth something: these lines are clear, and bash really calls programs for them."""
    segments = ShellParse().segments(command)
    assert not any(segment.is_opaque for segment in segments)
    calls, _ = stage.play(command)
    assert all(is_listed(call, segments) for call in calls)
    assert not is_listed(["other", "x"], segments)
    # These are not on the stage: their programs are not called, their words are.
    if not command.startswith(("xargs", "sh ", "timeout")):
        assert calls
