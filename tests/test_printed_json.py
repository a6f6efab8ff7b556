"""JSON that is printed is the same document with everything in it visible, whichever command prints it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.invisible_characters import printable_json

ROOT = Path(__file__).resolve().parent.parent
#: Marks of direction, controls, separators, joiners, blanks, tags and selectors of variants.
HIDDEN = [
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\x7f\x80\x85\x9b\x9f\u2028\u2029",
    *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u3164\u2800\ufe0f\u00a0\u2003\u3000\u115f\u17b4\u180b\u034f\U000e0001\U000e0041\U000e007f\U000e0100\ud800",
]
APP = "amplifier-app-cli/amplifier_app_cli"
TWIN = "amplifier-digital-twin/amplifier_digital_twin"
#: The only places that make JSON for programs to read from standard output.
PRINTERS = {f"{APP}/ui/records.py", f"{TWIN}/cli.py"}
#: What makes JSON for something else, and what that is.
OTHERS = {
    f"{APP}/ui/approval/edit.py": "a person edits it",
    f"{APP}/ui/approval/preview.py": "shown to a person, made visible",
    f"{APP}/ui/layout.py": "shown to a person, made plain",
    f"{APP}/chat/tool_output.py": "shown to a person, made plain",
    f"{APP}/chat/shell_line.py": "what a tool printed, for the model",
    f"{APP}/chat/commands/settings.py": "shown to a person, made plain",
    f"{APP}/commands/bundle/show.py": "a value in a table, made plain",
    f"{APP}/commands/bundle/add.py": "a file",
    f"{APP}/mcp/config.py": "a file",
    f"{APP}/migration.py": "a file",
    f"{APP}/commands/agents.py": "a value in a table, made plain",
    f"{APP}/commands/settings.py": "a value in a table, made plain",
    f"{APP}/commands/session/show.py": "shown to a person, made plain",
    f"{APP}/commands/module/list.py": "a value in a table, made plain",
    f"{APP}/commands/tool/list.py": "read again at once",
    f"{APP}/commands/approval.py": "shown to a person, made plain",
    f"{APP}/commands/logs.py": "a value in a line, made plain",
}


@pytest.mark.parametrize("character", HIDDEN, ids=ascii)
def test_what_cannot_be_seen_is_escaped(character: str) -> None:
    """No character that hides, reverses or steers reaches a reader as itself."""
    text = json.dumps({f"a{character}": f"{character}b"}, ensure_ascii=False)
    assert printable_json(text).isascii()
    assert json.loads(printable_json(text)) == json.loads(text)


@given(st.text())
def test_it_stays_the_same_document(text: str) -> None:
    """Escaping changes nothing that the JSON says, and leaves every letter that can be seen."""
    shown = printable_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(shown) == [text]
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]
    assert printable_json('"grüße 漢字 👍"') == '"grüße 漢字 👍"'


def _makers(folder: str) -> Iterator[str]:
    """Yield the files of a package that make JSON text."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("dumps", "dump", "model_dump_json", "JSONEncoder"):
                if node.attr == "model_dump_json" or (isinstance(node.value, ast.Name) and "json" in node.value.id):
                    yield str(path.relative_to(ROOT))
            elif isinstance(node, ast.ImportFrom) and node.module == "json":
                yield str(path.relative_to(ROOT))


def test_one_function_makes_the_json_that_is_printed() -> None:
    """A second way to JSON in the program is one that this page has to know, with the reason why it is not printed."""
    assert set(_makers(APP)) == {*OTHERS, f"{APP}/ui/records.py"}
    # What the services write to their standard output is read by their parent.
    texts = {path.relative_to(ROOT / TWIN): path.read_text(encoding="utf-8") for path in (ROOT / TWIN).rglob("*.py")}
    printers = {str(path) for path, text in texts.items() if "stdout.write(" in text and path.parts[0] != "profiles"}
    assert printers == {"cli.py", "services/process.py"}
    for printer in PRINTERS:
        assert "printable_json(" in (ROOT / printer).read_text(encoding="utf-8")


def test_logs_of_a_session(tmp_path: Path, popen: Callable[..., subprocess.Popen[bytes]]) -> None:
    """`amplifier logs --json` prints a prompt with hidden characters as JSON that hides nothing."""
    prompt = "Show " + "".join(each for each in HIDDEN if each != "\ud800") + " it."

    def run(*arguments: str) -> bytes:
        environment = {"PATH": "/usr/bin:/bin", "AMPLIFIER_HOME": str(tmp_path / "home")}
        process = popen(
            [sys.executable, "-m", "amplifier_app_cli", *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
        return out

    run("run", prompt)
    text = run("logs", "--json").decode("utf-8")
    assert prompt in [json.loads(line)["data"].get("prompt") for line in text.splitlines()]
    assert not [each for each in text if each != "\n" and unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")]
