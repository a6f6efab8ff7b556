"""`amplifier session export`."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"


@pytest.mark.parametrize(("form", "ending"), [("md", "md"), ("json", "json"), ("jsonl", "jsonl"), ("tar", "tar.gz")])
def test_an_export_is_written_under_the_id(give: Give, made: Made, project: Path, form: str, ending: str) -> None:
    """Without a file the export lies in the current folder, readable by its owner alone, and its path is printed."""
    made(ONE, "first")
    result = give("export", ONE[:5], "--as", form)
    assert result.stdout == f"{ONE}.{ending}\n"
    path = project / f"{ONE}.{ending}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if form == "tar":
        with tarfile.open(path) as archive:
            assert f"{ONE}/transcript.jsonl" in archive.getnames()
    else:
        assert "An answer to first" in path.read_text(encoding="utf-8")


def test_an_export_overwrites_only_with_force(give: Give, made: Made, project: Path) -> None:
    """A file that exists is kept; `--force` replaces it; the ending tells the format, no ending is md."""
    made(ONE, "first")
    target = project / "out.json"
    target.write_text("mine", encoding="utf-8")
    refused = give("export", ONE, "-o", "out.json")
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr
    assert target.read_text(encoding="utf-8") == "mine"
    assert give("export", ONE, "-o", "out.json", "-f").exit_code == 0
    assert json.loads(target.read_text(encoding="utf-8"))["session_id"] == ONE
    assert give("export", ONE, "-o", "plain").exit_code == 0
    assert (project / "plain").read_text(encoding="utf-8").startswith("# first")
    (project / "folder").mkdir()
    assert give("export", ONE, "-o", "folder").stdout == f"folder/{ONE}.md\n"
    unknown = give("export", ONE, "-o", "out.pdf")
    assert unknown.exit_code == 1
    assert "unknown format" in unknown.stderr


def test_an_export_to_standard_output_is_the_export_alone(amplifier: Amplifier, made: Made, project: Path) -> None:
    """`-o -` prints nothing but the export, in every format, and writes no file."""
    made(ONE, "first \x1b[31mred")
    lines = amplifier("session", "export", ONE, "--as", "jsonl", "-o", "-").stdout.splitlines()
    assert [json.loads(line)["role"] for line in lines] == ["user", "assistant"]
    assert json.loads(amplifier("session", "export", ONE, "--as", "json", "-o", "-").stdout)["session_id"] == ONE
    text = amplifier("session", "export", ONE, "-o", "-").stdout
    assert "first red" in text
    assert "\x1b" not in text
    assert list(project.iterdir()) == []


def test_an_archive_on_standard_output_can_be_unpacked(
    made: Made, project: Path, start: Callable[..., subprocess.Popen[Any]]
) -> None:
    """`--as tar -o -` is a whole archive, byte for byte."""
    made(ONE, "first")
    process = start("session", "export", ONE, "--as", "tar", "-o", "-", text=False)
    archived, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
        assert f"{ONE}/metadata.json" in archive.getnames()
    assert os.listdir(project) == []


def test_markdown_has_each_thought_and_call_once(
    amplifier: Callable[..., subprocess.CompletedProcess[str]], project: Path
) -> None:
    """What a model thinks and calls is in the document once, although messages hold it twice."""
    (project / "run.yaml").write_text(
        "turns:\n"
        "  - {thinking: I look around., text: Let me see., tool_calls: [{name: todo, arguments: {action: list}}]}\n"
        "  - {thinking: That is all., text: Done.}\n"
    )
    (project / "bundle.yaml").write_text(
        "bundle: {name: scripted}\nincludes: [default]\n"
        "providers:\n  - {module: provider-mock, config: {scenario: run.yaml}}\n"
    )
    assert amplifier("run", "go", "--bundle", "./bundle.yaml").returncode == 0
    [session] = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    assert amplifier("session", "export", session["id"], "-o", "talk.md").returncode == 0
    text = (project / "talk.md").read_text(encoding="utf-8")
    for part in ("I look around.", "That is all.", "Let me see.", "*Calls `todo`:*", '"action": "list"', "Done."):
        assert text.count(part) == 1, part
    assert "tool_call" not in text
