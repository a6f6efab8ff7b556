"""Let a person change a text in the editor of their choice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

#: Seconds that an editor has to end when it was told to.
_GRACE: Final = 2.0


class EditorError(Exception):
    """The editor did not come back with a text; the message says why."""


class Lender(Protocol):
    """Whoever has the terminal."""

    def lent(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to somebody else for the length of a block."""
        ...


def editor_of(environ: Mapping[str, str]) -> str | None:
    """Return the command that the person edits with, None when the environment names none."""
    return next((named for name in ("VISUAL", "EDITOR") if (named := environ.get(name, "").strip())), None)


async def edited(text: str, editor: str, lender: Lender, environ: Mapping[str, str]) -> str:
    """Return a text as it is after `editor` was run on it.

    The file lies in a folder that nobody else can look into, and both are gone afterwards. The editor runs in there and
    not in the project, where it might obey files such as `.exrc`. Raises EditorError when the editor cannot be started,
    fails, or leaves no text. One that is cancelled while it runs is ended.
    """
    import shlex
    import tempfile

    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise EditorError(f"the editor {editor!r} cannot be understood: {error}") from error
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
            raise EditorError(f"what the editor {editor!r} has left cannot be read: {error}") from error


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
