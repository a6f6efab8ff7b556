"""Programs of awk: what only shows text is harmless; what runs, writes or is not known is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from amplifier_kit.guard.policy.hazards import hazardous_awk
from amplifier_kit.guard.policy.segments import HOLE

HARMLESS = [
    "{print $1}", "NR==2", "/x/", "!/x/ {print NR}", "{n += $1} END {print n}", "$1 >= 2 || $2 == 3", "length($0) < 80",
    "BEGIN {print 1}", "{gsub(/a/, \"b\"); print}", "{printf \"%s\\n\", $1}", "$1 ~ /^a/ && NF", "",
]  # fmt: skip
HAZARDOUS = [
    'BEGIN{system("make")}', '{print > "f"}', '{print >> "f"}', '{print | "sh"}', '{print |& "sh"}',
    '{print || 1 | "sh"}', '"make" | getline', '{print 1 ||| "sh"}', 'function f(){system("x")}', '@load "x"',
    '@include "x"', "sys\\\ntem()", "{print >= 1 > $2}", 'BEGIN{getline < "/inet/tcp/0/x/80"}', HOLE,
    f"{{print {HOLE}}}", "x" * 3_000,
]  # fmt: skip


@pytest.mark.parametrize("program", HARMLESS)
def test_text_alone(program: str) -> None:
    """What shows or counts lines is harmless, with separators and variables before it and any file behind it."""
    assert hazardous_awk(("-F:", "-v", "n=3", program, "x", HOLE)) is None


@pytest.mark.parametrize("program", HAZARDOUS)
def test_more_than_text(program: str) -> None:
    """What runs or writes something, and what is not known, is not harmless."""
    assert hazardous_awk((program, "x")) is not None


@pytest.mark.parametrize("program", HARMLESS)
def test_harmless_to_awk_itself(program: str, tmp_path: Path) -> None:
    """The program itself takes these texts, and writes no file."""
    awk = shutil.which("awk")
    if awk is None:
        pytest.skip("no awk")
    done = subprocess.run([awk, program], input="abc 3\nx 1\n", capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "x"), ("--file=x",), ("-i", "inplace", "1", "x"), ("-Wexec", "x"), ("-E", "x"), ("-o", "1"), ("-d", "1"),
        ("--", "{print > 1}"), ("-F", ":", "--", "{print | 1}"), ("-v", f"x={HOLE}", "1"), (f"-F{HOLE}", "1"), (HOLE,),
        ("1", "/inet/tcp/0/x/80"),
    ],
)  # fmt: skip
def test_other_words(words: tuple[str, ...]) -> None:
    """Options that bring a program, load or write something, and words that are not known, are not harmless."""
    assert hazardous_awk(words) is not None


def test_no_words_at_all() -> None:
    """Nothing is harmless: awk tells how it is used."""
    assert hazardous_awk(()) is None
