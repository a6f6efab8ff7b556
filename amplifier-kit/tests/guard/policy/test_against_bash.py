"""The parser held against bash itself: whatever bash runs or writes, the parser has listed."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_kit.guard.policy.segments import HOLE, Segment
from amplifier_kit.guard.policy.shell import parse_line

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


def _play(arguments: list[str], folder: Path, programs: Path, seconds: float) -> None:
    """Run bash in a folder, and end all that it has started; raises TimeoutExpired when it takes longer."""
    process = subprocess.Popen(
        [str(BASH), *arguments],
        cwd=folder,
        env={"PATH": str(programs), "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # Nothing of it is left.
        process.wait()


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
        try:
            _play(["-c", command], self.cwd, self.bin, 30)
        except subprocess.TimeoutExpired:
            pass  # What it did until then counts.
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
        words = [HOLE if word.startswith("~") else word for word in segment.words or ()]
        pattern = re.escape(" ".join(words)).replace(re.escape(HOLE), ".*").replace("\\~", ".*")
        # What is filled in may be nothing at all, not even a word.
        if re.fullmatch(pattern.replace("\\ .*", "( .*)?"), ran, re.DOTALL) or re.fullmatch(pattern, ran, re.DOTALL):
            return True
    return False


@given(LINES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_bash_runs_nothing_that_is_not_listed(stage: Stage, command: str) -> None:
    """What bash runs and writes for a line without opaque parts is among its segments and redirects."""
    segments = parse_line(command)
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
    segments = parse_line(command)
    assert not any(segment.is_opaque for segment in segments)
    calls, _ = stage.play(command)
    assert all(is_listed(call, segments) for call in calls)
    assert not is_listed(["other", "x"], segments)
    # These are not on the stage: their programs are not called, their words are.
    if not command.startswith(("xargs", "sh ", "timeout")):
        assert calls


PROGRAMS = ("aa", "bb", "rm")
#: Texts that are tricky where words are, where redirects are, and where a command starts.
TRICKY_WORDS = (
    "a", "b", "x", "-x", "--opt=v", "-", "--", "0", "1", "2", "12", "=", "a=b", "!", "]", "}", "{}", "+", "'q r'",
    '"d q"', "''", "$'a\\n'", "a\\ b", "'a'\"b\"c", "a#b", "# c", "$x", '"$x"', "a$x", "~", "time", "if", "do", "then",
    "fi", "done", "in", "_=1", "x=1", "{a,b}", "*", "\\;", "\\", "$(aa)", "`bb`", "<(aa)", "é", "$((1))", "${x}",
    "a\\\nb",
)  # fmt: skip
TRICKY_REDIRECTS = (
    "<a", "< a", ">b", "> b", ">>b", ">|b", "2>b", "&>b", "&>>b", ">&b", "2>&1", ">&2", "1>&2", "<&0", "<&-", ">&-",
    "2>&-", "3>&-", "0<&-", "0<a", "0>b", "00<a", "10>b", "99999999999>b", "2>&1-", "<&3-", ">& -", ">&--x", "<>b",
    "1<>b", "<<<w", "<<<'a b'", "<<< w", "0<<<w", "3<<<w", "{x}>b", ">b 2>&1", "<a <a", "</dev/null", "2>/dev/null",
    ">b>b",
)  # fmt: skip
TRICKY_STARTS = (
    "x=1", "_=1", "_=", "x+=1", "_='a b'", "x=$(aa)", "x[0]=1", "time", "time -p", "!", "! !", "time !", "time x=1",
    "time _=1", "command", "command --", "builtin", "nice", "nice -n 1", "env", "env a.b=1", "env =", "timeout 5",
    "\\", "''",
)  # fmt: skip
TESTED = ("a", "=", "!", "-f", "-a", "-n", "-eq", "1", "x", "rm", "rm", "aa x", "(", ")", "$x", "]", ">b", "'q'")
BETWEEN = ("; ", "\n", " | ", " && ", " || ", " & ", "\n\n", " |& ", ";", "&&", "|", " ;\n")
AROUND = (
    "{ %s; }", "( %s )", "(%s)", "if %s; then %s; fi", "for x in 1; do %s; done", "for x in %w\ndo %s; done",
    "case x in x) %s;; esac", "case %w in %w) %s;; (x) %s; esac", "while %s; do %s; break; done",
    "until %s; do break; done", "aa $(%s)", 'aa "$(%s)" %w', "aa `%s`", "aa <(%s)", "%s # %s", "time { %s; }",
    "time (%s)", "time for x in 1; do %s; done", "time if %s; then %s; fi", "time while %s; do break; done",
    "{ %s; } %r", "( %s ) %r", "aa %w <<E %r %w\n%s\nE\n%s", "aa <<'E' %r\n%s\nE\n%s", "aa <<-E\n\t%s\n\tE\n%s",
    "aa <<E | %s\nx\nE", "%s <<E\n$(%s)\nE", "x=%w; %s", "x=$(%s) %s", "[ %t ]", "[ %t ] && %s", "[[ %t ]]",
    "if [ %t ]; then %s; fi", "while [ %t ]; do %s; break; done", "! [ %t ]", "aa %w; [ %t ]; %s", "! %s",
    "bb() { %s; }; bb", "sh -c '%s' x", "aa %r\n%s", "aa %r %s", "aa \\\n%s", 'aa "%w\n%s"', "aa '%s", "(( %w ))\n%s",
    "coproc %s", "aa ${x:-%s}",
)  # fmt: skip


class Tricks:
    """Lines that are made of tricky pieces, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def line(self, depth: int = 2) -> str:
        """Return a line."""
        if depth and self.chance.random() < 0.4:
            form = self.chance.choice(AROUND)
            return re.sub("%[swrt]", lambda found: self._piece(found[0], depth - 1), form)
        count = self.chance.choice((1, 1, 1, 2, 2, 3))
        parts = [self._command() for _ in range(count)]
        return "".join(part + self.chance.choice(BETWEEN) for part in parts[:-1]) + parts[-1]

    def _piece(self, kind: str, depth: int) -> str:
        if kind == "%s":
            return self.line(depth)
        if kind == "%t":
            count = self.chance.randint(1, 4)
            return "".join(
                self.chance.choice(TESTED) + self.chance.choice((" ", " ", "\n", " \n ")) for _ in range(count)
            )
        return self.chance.choice(TRICKY_WORDS if kind == "%w" else TRICKY_REDIRECTS)

    def _command(self) -> str:
        pieces = []
        while self.chance.random() < 0.3:
            pieces.append(self.chance.choice(TRICKY_STARTS + TRICKY_REDIRECTS))
        pieces.append(self.chance.choice(PROGRAMS))
        while self.chance.random() < 0.65:
            pieces.append(self.chance.choice(TRICKY_REDIRECTS if self.chance.random() < 0.4 else TRICKY_WORDS))
        return "".join(piece + self.chance.choice((" ",) * 12 + ("  ", "\t", "")) for piece in pieces)


class Theatre:
    """One bash that reads many lines, where there is no program at all: it writes down which ones it looked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"

    def play(self, lines: list[str]) -> list[tuple[list[list[str]], set[str]]]:
        """Run every line in a folder of its own; return for each how programs were called, and the files it made."""
        written = f"printf '%s\\0' \"$number\" \"$@\" '<END>' >> {shlex.quote(str(self.log))}"
        script = [
            f"command_not_found_handle() {{ {written}; }}",
            *(f"number={at}; (cd {at} && eval {shlex.quote(line)})" for at, line in enumerate(lines)),
        ]
        for at in range(len(lines)):
            (self.folder / str(at)).mkdir()
            (self.folder / str(at) / "a").write_text("x\n", encoding="utf-8")
        (self.folder / "script").write_text("\n".join(script), encoding="utf-8")
        _play([str(self.folder / "script")], self.folder, self.folder / "nothing", 120)
        calls: list[list[list[str]]] = [[] for _ in lines]
        for call in self.log.read_bytes().decode("utf-8", "replace").split("<END>\0")[:-1]:
            number, *words = call.split("\0")[:-1]
            calls[int(number)].append(words)
        return [(calls[at], set(os.listdir(self.folder / str(at))) - {"a"}) for at in range(len(lines))]


def clear_lines(seed: int, count: int) -> dict[str, list[Segment]]:
    """Return lines without opaque parts, and the commands in them: what may be allowed and must be right."""
    tricks, found = Tricks(seed), dict[str, list[Segment]]()
    while len(found) < count:
        line = tricks.line()
        segments = parse_line(line)
        if segments and not any(segment.is_opaque for segment in segments):
            found[line] = segments
    return found


def unlisted(calls: list[list[str]], files: set[str], segments: list[Segment]) -> list[object]:
    """Return what bash has called and written and no segment tells."""
    around = [Segment(words, "") for segment in segments for words in segment.within]
    writes = {redirect.target for segment in segments for redirect in segment.redirects if redirect.kind == "write"}
    return [*(call for call in calls if not is_listed(call, [*segments, *around])), *(files - writes)]


needs_handle = pytest.mark.skipif(
    BASH is not None and subprocess.run([BASH, "-c", "(( BASH_VERSINFO[0] >= 4 ))"], check=False).returncode != 0,
    reason="this bash does not tell which programs it looked for",
)


@needs_handle
@pytest.mark.parametrize("seed", range(3))
def test_tricky_lines_run_nothing_that_is_not_listed(seed: int, tmp_path: Path) -> None:
    """Redirects, variables, keywords, tests and quotes in any order: what bash runs is what the parser has listed."""
    lines = clear_lines(seed, 400)
    played = Theatre(tmp_path).play(list(lines))
    wrong = {
        line: found
        for (line, segments), (calls, files) in zip(lines.items(), played, strict=True)
        if (found := unlisted(calls, files, segments))
    }
    assert wrong == {}
    assert sum(bool(calls) for calls, _ in played) > 200, "most of the lines run something: the comparison sees it"
