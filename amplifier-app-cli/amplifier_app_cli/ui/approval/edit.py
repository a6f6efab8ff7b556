"""Let the user edit the input of a tool call: as JSON, in their editor."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from amplifier_app_cli.ui.plain import plain

#: Seconds for an editor to end after it was terminated.
_GRACE: Final = 2.0


class EditorError(Exception):
    """The editor returned no text; the message says why."""


class Lender(Protocol):
    """Owns the terminal."""

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Lend the terminal to another program for the length of a block."""
        ...


def find_editor(environ: Mapping[str, str]) -> str | None:
    """Return the command that the person edits with, None when the environment names none."""
    return next((named for name in ("VISUAL", "EDITOR") if (named := environ.get(name, "").strip())), None)


async def edit_text(text: str, editor: str, lender: Lender, environ: Mapping[str, str]) -> str:
    """Let the user edit a text with `editor`, and return the result.

    The file is in a private temporary folder. The editor runs in that folder and not in the project, where it might
    obey files such as `.exrc`. Raises EditorError when the editor cannot be
    started, fails, or leaves no text. If this is cancelled, the editor is terminated.
    """
    import shlex
    import tempfile

    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise EditorError(f"the editor {editor!r} cannot be parsed: {error}") from error
    with tempfile.TemporaryDirectory(prefix="amplifier-edit-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "input.json"
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
        async with lender.lent():
            code = await _run([*command, str(file)], folder, environ)
        if code != 0:
            raise EditorError(f"the editor {editor!r} ended with exit code {code}: nothing is changed")
        try:
            return file.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise EditorError(f"the file that the editor {editor!r} wrote cannot be read: {error}") from error


class _Ending(asyncio.SubprocessProtocol):
    """Know when the editor has ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        self.ended.set()


async def _run(command: list[str], folder: str, environ: Mapping[str, str]) -> int | None:
    from amplifier_kit.guard.processes.launch import open_process_with_protocol
    from amplifier_kit.guard.processes.programs import find_program

    program = await asyncio.to_thread(find_program, command[0], environ.get("PATH"))
    if program is None:
        where = "give its absolute path" if os.sep in command[0] else "it is not on PATH, outside of the project"
        raise EditorError(f"the editor {command[0]!r} cannot be started: {where}")
    try:
        transport, ending = await open_process_with_protocol(
            _Ending,
            [program, *command[1:]],
            environment=environ,
            cwd=folder,
            because="it holds nothing but the file to edit",
            stdin=None,
            stdout=None,
            stderr=None,
            has_terminal=True,
        )
    except (OSError, ValueError) as error:
        raise EditorError(f"the editor {command[0]!r} cannot be started: {error}") from error
    try:
        await ending.ended.wait()
        return transport.get_returncode()
    finally:
        if not ending.ended.is_set():
            await _end(transport, ending)
        transport.close()


async def _end(transport: asyncio.SubprocessTransport, ending: _Ending) -> None:
    transport.terminate()
    try:
        await asyncio.wait_for(ending.ended.wait(), _GRACE)
    except TimeoutError:
        transport.kill()
        await ending.ended.wait()


#: How lines begin with which a file sets options of vi, Vim, Kakoune, Kate and Emacs (which also knows `-*-`).
_MODELINE: Final = re.compile(
    r"(?:(?<!\w)|(?<=\\[bfnrt]))(vim?(?:[<=>]{0,2}\d+)?|ex|kak|kate|local variables):", re.IGNORECASE
)


class InputProblem(ValueError):
    """A text is not a valid tool input; the message says why, and in which line."""


def format_input(tool_input: dict[str, Any], *, on_one_line: bool = False) -> str:
    """Return an input as JSON, without terminal escapes."""
    indent = None if on_one_line else 2
    text = json.dumps(tool_input, ensure_ascii=False, indent=indent)
    return text if plain(text) == text else json.dumps(tool_input, ensure_ascii=True, indent=indent)


def escape_modelines(text: str) -> str:
    """Return the same JSON without anything that an editor would take for its own settings.

    What a model wrote may hold such a line, and several editors obey those of the file that they open. One character of
    each is written as its number, which is the same JSON.
    """
    text = _MODELINE.sub(lambda found: f"{found[1]}\\u003a", text)
    return text.replace("-*-", "-\\u002a-")


def read(text: str) -> dict[str, Any]:
    """Return the tool input in a text; raises InputProblem unless it is a JSON object."""
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputProblem(f"line {error.lineno}, column {error.colno}: {error.msg}: {_line(text, error)}") from error
    except InputProblem:
        raise
    except UnicodeEncodeError as error:
        raise InputProblem("it contains a lone surrogate, which cannot be encoded") from error
    except (ValueError, RecursionError) as error:
        raise InputProblem(f"it cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InputProblem(f"the input of a tool is a JSON object, as in {{…}}; this is {_kind(found)}")
    return found


def input_diff(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the lines of a diff between two inputs."""
    import difflib

    old, new = format_input(before).splitlines(), format_input(after).splitlines()
    return list(difflib.unified_diff(old, new, "requested", "changed", lineterm="", n=2))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputProblem(f"duplicate key {key!r}")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise InputProblem(f"{name} is not valid JSON")


def _line(text: str, error: json.JSONDecodeError) -> str:
    lines = text.split("\n")
    return lines[error.lineno - 1].strip() or "(an empty line)"


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
