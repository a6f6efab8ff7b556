"""What is said of names in a prompt that lead to no file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Amplifier = Callable[..., subprocess.CompletedProcess[str]]


def test_a_mistyped_name_is_one_line(amplifier: Amplifier, project: Path, scripted: Callable[..., str]) -> None:
    """A name that leads nowhere is told once beside the answer, what was found and what files name is not."""
    (project / "notes.md").write_text("see @gone.md", encoding="utf-8")
    bundle = scripted("turns: [{text: Sure.}]")
    result = amplifier("run", "compare @notes.md with @nots.md", "--bundle", bundle)
    assert result.stdout == "Sure.\n", result.stderr
    said = [line for line in result.stderr.splitlines() if "@" in line]
    assert said == [f"note: not given to the model: @nots.md: there is no such file: {project}/nots.md"]
    assert "nots.md" not in amplifier("--quiet", "run", "@nots.md", "--bundle", bundle).stderr


def test_many_are_still_one_line(amplifier: Amplifier, scripted: Callable[..., str]) -> None:
    """Pasted text with many words behind an @ fills no screen, and what programs read stays whole."""
    words = " ".join(f"@word{number}" for number in range(30))
    result = amplifier("run", words, "--bundle", scripted("turns: [{text: Sure.}]"), "--output-format", "json")
    [line] = [line for line in result.stderr.splitlines() if "@word" in line]
    assert line.endswith("; and 27 more")
    assert json.loads(result.stdout)["response"] == "Sure."
