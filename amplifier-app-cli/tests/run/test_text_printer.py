"""An answer, shown while it arrives."""

import io
import os
from typing import Any

import pytest

from amplifier_app_cli.run.printers import TextPrinter
from amplifier_core.hooks import HookRegistry


async def _play(printer: TextPrinter, *blocks: tuple[str, list[str]]) -> None:
    hooks = HookRegistry()
    printer.connect(hooks)
    for index, (kind, pieces) in enumerate(blocks):
        facts: dict[str, Any] = {"block_type": kind, "block_index": index}
        await hooks.emit("llm:stream_block_start", facts)
        for piece in pieces:
            await hooks.emit("llm:stream_block_delta", {**facts, "text": piece})


@pytest.mark.parametrize(
    ("blocks", "answer", "shown"),
    [
        ([("text", ["The ", "answer."])], "The answer.", "The answer.\n"),
        ([("text", ["Looking."]), ("text", ["Done."])], "Done.", "Looking.\nDone.\n"),
        ([("text", ["One"]), ("text", ["two"])], "One\n\ntwo", "One\ntwo\n"),
        ([("thinking", ["hm"])], "Out.", "Out.\n"),
        ([("text", ["Looking."])], "Else.", "Looking.\nElse.\n"),
        ([("text", ["ends\n"])], "ends", "ends\n"),
        ([], "", ""),
        ([("text", ["\x1b", "[31mred"])], "\x1b[31mred", "red\n"),
        ([("text", ["a\x1b[3", "1mred\x1b", "[0m\x1b"]), ("text", ["b"])], "b", "ared\nb\n"),
    ],
)
async def test_the_answer_is_shown_once(blocks: list[tuple[str, list[str]]], answer: str, shown: str) -> None:
    """Text is written as it streams in, blocks on lines of their own; what was not streamed follows at the end."""
    out = io.StringIO()
    printer = TextPrinter(out)
    await _play(printer, *blocks)
    printer.answer(answer)
    assert out.getvalue() == shown


async def test_a_reader_that_is_gone_ends_the_writing_only() -> None:
    """A closed pipe is no failure: the rest is thrown away quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        printer = TextPrinter(out)
        await _play(printer, ("text", ["a", "b"]))
        printer.answer("ab and more")
        assert printer.failure is None


async def test_a_full_disk_is_a_failure() -> None:
    """What keeps the answer from being written, other than its reader, is remembered."""
    with open("/dev/full", "w") as out:
        printer = TextPrinter(out)
        printer.answer("The answer.")
        assert printer.failure is not None
        assert "No space left" in str(printer.failure)
