"""Words with which an everyday program runs, removes or writes something else: tried on the programs themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rule_parser import parse_rules
from amplifier_kit.guard.policy.rules import RuleSet

#: A line, and the program that it needs. Each makes the file `out`, or takes the file `gone` away.
LINES = [
    ("find -- . -name gone -delete", "find"), ("find . -name -- -o -name gone -delete", "find"),
    ("find . -name -- -o -name gone -fprint out", "find"), ("sort -T -- -o out in", "sort"), ("uniq in out", "uniq"),
    ("uniq -c in out", "uniq"), ("shuf -o out in", "shuf"), ("xxd in out", "xxd"),
    ("awk '{print > \"out\"}' in", "awk"), ("awk 'BEGIN{system(\"touch out\")}'", "awk"),
    ("make test X='; touch out'", "make"), ("make test 'X=$(shell touch out)'", "make"),
    ("make test --eval='$(shell touch out)'", "make"),
    ("make test --ev='$(shell touch out)'", "make"),
    ("compgen -C 'touch out'", "bash"), ("compgen -W '$(touch out)'", "bash"), ("jobs -x touch out", "bash"),
    ("'[' -v 'a[$(touch out)]' ]", "bash"), ("x='a[$(touch out)]'; [[ 1 -eq x ]]", "bash"),
    ("sed -l 1p 'e touch out' in", "sed"), ("sed --line-length 1p 'e touch out' in", "sed"),
    ("sed --e='e touch out' p", "sed"), ("echo '; touch out' | xargs -rIin sh -c 'echo in'", "xargs"),
    ("echo x | xargs --process-slot-var=PATH uniq", "xargs"), ("tar cf x gone --remove-files", "tar"),
    ("uniq -- -in out", "uniq"), ("xxd -- -in out", "xxd"),
    ("make own PATH=bin", "make"), ("make own BASH_ENV=./script", "make"),
    ("printf 'abc%n' PATH; uniq in", "bash"), ("echo {PATH[0]}>/dev/null; uniq in", "bash"),
    ("split --filter='touch out' in", "split"), ("split -l 1 --filt 'touch out' in", "split"),
    ("install -s --strip-program=./script in there", "install"),
    ("zip -m x.zip gone", "zip"), ("zip -q x.zip in -T -TT 'touch out; true'", "zip"), ("ptx -G in out", "ptx"),
    ("sdiff --diff-program=./script in p", "sdiff"), ("diff3 --diff-program=./script in p gone", "diff3"),
    ("openssl rand -out out 8", "openssl"), ("openssl rand --out out 8", "openssl"),
    ("vim -es -c '!touch out' -c q in", "vim"), ("vim -es '+!touch out' +q in", "vim"),
    ("git init -q; git config alias.x '!touch out'; git x", "git"),
    ("test -v 'a[$(touch out)]'", "bash"), ("tar cf x -g out in", "tar"), ("tar tvf in.tar --index-file=out", "tar"),
]  # fmt: skip
PROGRAMS = ("find", "sort", "uniq", "shuf", "xxd", "awk", "make", "compgen", "jobs", "test", "tar", "[", "[[", "sed",
            "xargs", "sh -c", "echo", "printf", "split", "install", "zip", "ptx", "sdiff", "diff3", "openssl", "vim",
            "git")  # fmt: skip


def _verdict(line: str, project: Path) -> str | None:
    given = [{"verdict": "allow", "command": f"{program} *"} for program in PROGRAMS]
    rules, problems = parse_rules(given, lambda index, key: f"rules[{index}]")
    assert problems == []
    return RuleSet(rules, project).decide(facts("process.exec", {"command": line}, project)).verdict


@pytest.mark.parametrize(("line", "needed"), LINES)
def test_what_has_another_effect_is_not_allowed(line: str, needed: str, tmp_path: Path) -> None:
    """A rule that allows a program does not allow the line, and a shell shows that it was worth it."""
    assert _verdict(line, tmp_path) is None
    if shutil.which(needed) is None or shutil.which("bash") is None:
        pytest.skip(f"no {needed}")
    for name in ("in", "gone", "p", "-in"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    makefile = "test:\n\t@true $(X)\nown:\n\t@bash -c :; greet\n"
    (tmp_path / "Makefile").write_text(makefile, encoding="utf-8")
    (tmp_path / "script").write_text("#!/bin/sh\ntouch out\n", encoding="utf-8")
    (tmp_path / "script").chmod(0o755)
    for place in ("bin/greet", "0/uniq", "3/uniq", "uniq"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("#!/bin/sh\n: > out\n", encoding="utf-8")
        (tmp_path / place).chmod(0o755)
    if needed == "tar":
        subprocess.run(["tar", "cf", "in.tar", "in"], cwd=tmp_path, check=True)
    subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL)
    if (tmp_path / "gone").exists() and not (tmp_path / "out").exists():
        pytest.skip("the program of this machine does not know it")


@pytest.mark.parametrize(
    "line",
    ["find . -name in", "sort -T . in", "uniq -c in", "shuf -n 1 in", "xxd in", "awk '{print}' in", "make test X=y",
     "make test -C sub", "make -f other.mk test", "compgen -c", "jobs -l", "test -f in", "tar tf in.tar", "[ -f in ]",
     "[[ 1 -eq 2 ]]", "sed --expression=p in", "xargs -0 echo", "uniq -c", "xargs -rI% echo %", "echo {a}",
     "printf '%s%%n\\n' in", "printf \"a $x\"", "split -l 1 in", "install -m 644 in there", "zip -q x.zip in",
     "sdiff in p", "diff3 in p gone", "openssl rand 8", "vim +1 in", "git config user.name", "git init -q"],
)  # fmt: skip
def test_what_has_none_is_allowed(line: str, tmp_path: Path) -> None:
    """The everyday use of the same programs passes."""
    assert _verdict(line, tmp_path) == "allow"
