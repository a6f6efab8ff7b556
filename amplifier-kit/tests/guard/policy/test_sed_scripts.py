"""Scripts of sed: what only changes text is harmless; what runs, writes or is not known is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from amplifier_kit.guard.policy.hazards import hazardous_sed
from amplifier_kit.guard.policy.segments import HOLE

HARMLESS = [
    "s/a/b/", "s/a/b/g", "s|a|b|p", "s/a\\/b/c/", "1,5p", "$d", "/x/d", "/x/,/y/p", "1!d", "s/a/b/;s/c/d/", "p;",
    "s/a/b/\ns/c/d/", "{p;d}", "/x/{s/a/b/;p}", "y/abc/def/", "10q", "s/[^,]*,//", "s,a,b,", "/^$/d", "1~2p", "2,+3p",
    "s#a#b#gI", "n;d", "/a/!s/b/c/", "s/\\(a\\)/\\1/",
]  # fmt: skip
HAZARDOUS = [
    "s/a/b/e", "s/a/b/e;s/x/y/", "s/a/b/w f", "s/a/b/gw f", "e make", "1e make", "$e", "w f", "W f", "/x/w f", "p;w f",
    "pw f", "{p;e make\n}", "{e make}", "s/a/b/;e make", "s/a/b/\ne make", "r /etc/passwd", "R x", "a\\\nfoo",
    "s;a;b;e", "s a b e", "s/a/b", "s/a/b/pe", "s/a/\\\n/e", "1,/x/e make", "\\,x,e make", "b;e make", ":a;e make",
    "s/[/]/x/e", "s/a/b/}e", "} e make", "sxaxbxe", "#n\ne make", "s/x/y/;;e make", "/[/]/e make", "q5e make", HOLE,
    "s" * 3_000,
]  # fmt: skip


@pytest.mark.parametrize("script", HARMLESS)
def test_text_alone(script: str) -> None:
    """What changes, shows or drops lines is harmless."""
    assert hazardous_sed(("-n", script, "x")) is None


@pytest.mark.parametrize("script", HAZARDOUS)
def test_more_than_text(script: str) -> None:
    """What runs, reads or writes something else, and what is not known, is not harmless."""
    assert hazardous_sed(("-n", script, "x")) is not None


@pytest.mark.parametrize("script", HARMLESS)
def test_harmless_to_sed_itself(script: str, tmp_path: Path) -> None:
    """The program itself takes these scripts, and with its own walls up, which refuse to run and to write."""
    sed = shutil.which("sed")
    if sed is None or subprocess.run([sed, "--sandbox", "p"], input="", capture_output=True, text=True).returncode:
        pytest.skip("no sed that has walls of its own")
    done = subprocess.run(
        [sed, "--sandbox", "-n", script], input="abc\nx\n", capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("-e", "p", "-e", "e make"), ("--expression=e make", "x"), ("--expression", "e make"), ("--exp=e make",),
        ("-ne", "e make"), ("-nee make",), ("--", "e make"), ("-n", "--", "w f", "p"), ("-e", "p", "--expr", "w f"),
    ],
)  # fmt: skip
def test_scripts_are_found(words: tuple[str, ...]) -> None:
    """Wherever options put a script, it is looked at."""
    assert hazardous_sed(words) is not None


@pytest.mark.parametrize("words", [("-n", "p", "e make"), ("-e", "p", "e make"), ("--expression=p", "w f"), ()])
def test_files_are_no_scripts(words: tuple[str, ...]) -> None:
    """A file may be called as it likes."""
    assert hazardous_sed(words) is None
