"""Files as other systems and hurried people write them: with a mark at the start, with two characters per line end."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[Path, Mapping[str, str]], None]
Tool = Callable[..., dict[str, str]]

BUNDLE = """\
---
bundle:
  name: odd
includes:
  - ./behaviors/extra.yaml
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - module: provider-mock
    config: {scenario: scenario.yaml}
hooks:
  - {module: hooks-logging}
agents: {include: [helper]}
---
The instruction.

@mentioned.md
"""
EXTRA = "bundle: {name: extra}\ncontext:\n  include: [context.md]\ntools:\n  - {module: tool-greet, source: ./tool}\n"
AGENT = "---\nmeta:\n  name: helper\n  description: Helps\n---\nHelp.\n"
TURN = {
    "text": "Done.",
    "expect": {
        "contains": ["A prompt.", "line two"],
        "system_contains": ["The instruction.", "Of a mention.", "Of the context.", "Of the rules."],
        "tools": ["greet_hello"],
    },
}
PROMPT = "A prompt.\nline two\n"


def _on_windows(text: str) -> str:
    return "\ufeff" + text.replace("\n", "\r\n")


def _scenario(turn: Mapping[str, Any]) -> str:
    return json.dumps({"turns": [turn]}, indent=1)


@pytest.mark.parametrize("written", [str, _on_windows], ids=["plain", "with-mark-and-crlf"])
def test_files_with_a_mark_and_other_line_ends(
    project: Any, write_files: Write, tool: Tool, written: Callable[[str], str]
) -> None:
    """Every file that people write may begin with a byte order mark and end its lines with CR LF."""
    files = {
        "bundle.md": BUNDLE,
        "behaviors/extra.yaml": EXTRA,
        "behaviors/context.md": "Of the context.\n",
        "agents/helper.md": AGENT,
        "mentioned.md": "Of a mention.\n",
        "AGENTS.md": "Of the rules.\n",
        "scenario.yaml": _scenario(TURN),
        ".amplifier/settings.yaml": "overrides:\n  tool-greet:\n    config: {loud: true}\n",
        ".amplifier/settings.local.yaml": "# mine\nbundle:\n  active: ./bundle.md\n",
        "prompt": PROMPT,
        **{f"tool/{name}": text for name, text in tool().items()},
    }
    write_files(project.folder, {name: written(text) for name, text in files.items()})
    write_files(
        project.home, {"settings.yaml": written("bundle:\n  active: default\n"), "keys.env": written("A_KEY=x\n")}
    )
    (project.home / "keys.env").chmod(0o600)
    write_files(project.home, {"registry.json": written('{\n"version": 1,\n"bundles": {}}\n')})
    with (project.folder / "prompt").open("rb") as prompt:
        done = project.run("run", "--trust", "--bundle", ".", stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "note:" not in done.stderr
    assert "warning:" not in done.stderr
    [record] = [json.loads(log.with_name("record.json").read_bytes()) for log in project.logs()]
    assert record["plan"]["agents"]["helper"]["instruction"] == "Help."
    assert record["plan"]["tools"][0]["config"] == {"loud": True}


@pytest.mark.parametrize("written", [str, _on_windows], ids=["plain", "with-mark-and-crlf"])
@pytest.mark.parametrize(
    ("place", "text", "line", "said"),
    [
        ("home/settings.yaml", "bundle:\n  active: x\n  broken: [\n", 4, ""),
        (".amplifier/settings.yaml", "bundle:\n\tactive: x\n", 2, ""),
        (".amplifier/settings.local.yaml", "# one\n# two\nbundel: {}\n", 3, "bundle"),
        ("home/settings.yaml", "bundle:\n  active: [a, b]\n", 2, "active"),
        (".amplifier/settings.yaml", "- a\n- list\n", 1, ""),
    ],
    ids=["cut-off", "tab", "unknown-key", "wrong-shape", "no-mapping"],
)
def test_malformed_settings(
    project: Any, write_files: Write, written: Callable[[str], str], place: str, text: str, line: int, said: str
) -> None:
    """Settings that cannot be understood end the run with code 1, the file and the line."""
    project.script([{"text": "never"}])
    folder, _, name = place.rpartition("/")
    where = project.home if folder == "home" else project.folder / folder
    write_files(where, {name: written(text)})
    done = project.run("run", "go")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"amplifier: {where / name}:"), first
    assert first.removeprefix(f"amplifier: {where / name}:").partition(":")[0] == str(line), first
    assert said in first
    assert "Traceback" not in done.stderr
    assert project.logs() == []


@pytest.mark.parametrize(
    "text", ["", "\ufeff", "\n\n", "# nothing\r\n", "---\n", "\ufeff---\r\n...\r\n", "{}\n", "null\n"]
)
def test_settings_that_say_nothing(project: Any, write_files: Write, text: str) -> None:
    """A settings file without settings is none."""
    project.script([{"text": "Done."}])
    write_files(project.home, {"settings.yaml": text})
    write_files(project.folder / ".amplifier", {"settings.yaml": text, "settings.local.yaml": text})
    done = project.go()
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def _check_named(done: subprocess.CompletedProcess[str], path: Path, code: int = 1) -> None:
    """The run ended with this code, and one message that begins with the file."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith(f"amplifier: {path}"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "content", ["bundle: {name: ü}\n".encode("utf-16"), "name: ü\n".encode("latin-1"), b"a: \x00\n"]
)
@pytest.mark.parametrize("name", ["bundle.yaml", ".amplifier/settings.yaml"])
def test_files_that_are_no_utf_8(project: Any, name: str, content: bytes) -> None:
    """A file in another encoding is named, and not read as something that it does not say."""
    project.script([{"text": "never"}])
    path = project.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    _check_named(project.go(), path)
    assert project.logs() == []


def test_rules_that_are_no_utf_8(project: Any) -> None:
    """An AGENTS.md that is no UTF-8 costs no answer."""
    project.script([{"text": "Done."}])
    (project.folder / "AGENTS.md").write_bytes("Größe\n".encode("latin-1"))
    done = project.go()
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize(("name", "code"), [("bundle.yaml", 2), (".amplifier/settings.yaml", 1)])
def test_a_folder_where_a_file_should_be(project: Any, name: str, code: int) -> None:
    """A folder in the place of a file is named; without a bundle in it, no such bundle is known."""
    project.script([{"text": "never"}])
    path = project.folder / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    _check_named(project.go(), path, code)
    assert project.logs() == []
