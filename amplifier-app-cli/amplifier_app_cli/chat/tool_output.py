"""The output of tool calls: as text, folded to a few lines, and kept so that all of it can be shown later."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_app_cli.ui.layout import counted, shortened, single_line
from amplifier_app_cli.ui.plain import plain
from amplifier_kit.named_tuple import NamedTuple

#: Lines of an output that are shown at once: of a failure, and of everything else.
FOLDED: Final = 5
FOLDED_FAILURE: Final = 14
#: Outputs that can be shown in full, and the longest of them, in lines; the log has everything.
_KEPT: Final = 50
_LONGEST: Final = 2_000


class ToolOutput(NamedTuple):
    """The output of one call."""

    #: The call: mark, tool and what it was about.
    title: str
    lines: tuple[str, ...]
    #: What stands in for the lines at first, such as the number of lines that were read.
    summary: str = ""

    def folded(self, width: int, most: int = FOLDED, key: str = "") -> list[str]:
        """Return the first and last lines, none wider than `width`; `key` says how to see the others."""
        if self.summary:
            return [shortened(self.summary, width)]
        lines = self.lines
        if len(lines) <= most + 1:
            return [shortened(line, width) for line in lines]
        first = most // 4 + 1  # how it ended says more than how it began
        hidden = len(lines) - most
        more = f"… {counted(hidden, 'more line')}{f' ({key})' if key else ''}"
        return [shortened(line, width) for line in (*lines[:first], more, *lines[first - most :])]


class KeptOutputs:
    """The latest outputs, for showing them in full: the last one first, and each further time the one before."""

    def __init__(self) -> None:
        self._outputs: deque[ToolOutput] = deque(maxlen=_KEPT)
        #: How many of the latest outputs were shown in full since the last one was added.
        self._back = 0

    def __len__(self) -> int:
        return len(self._outputs)

    def add(self, output: ToolOutput) -> None:
        """Keep an output."""
        self._outputs.append(output)
        self._back = 0

    def next(self) -> ToolOutput | None:
        """Return the latest output that was not asked for yet; None after the first one."""
        self._back += 1
        return self.at(self._back)

    def at(self, number: int) -> ToolOutput | None:
        """Return an output, counted from the last one, which is 1."""
        return self._outputs[-number] if 1 <= number <= len(self._outputs) else None


def output_of(title: str, result: Mapping[str, Any]) -> ToolOutput:
    """Return the output in the result of a call."""
    output = result.get("output")
    text = _text(output)
    error = result.get("error")
    if isinstance(error, Mapping) and text.strip() == str(error.get("message") or "").strip():
        text = ""  # the reason of the failure is shown anyway
    lines = plain(text).expandtabs(4).rstrip().split("\n") if text.strip() else []
    while lines and not lines[0].strip():
        del lines[0]
    if len(lines) > _LONGEST:
        lines = [*lines[:_LONGEST], f"… {counted(len(lines) - _LONGEST, 'more line')}: `amplifier logs` has them"]
    return ToolOutput(title, tuple(line.rstrip() for line in lines), _summary(output))


def _text(output: Any) -> str:
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        if "stdout" in output or "stderr" in output:
            parts = [str(output.get(key) or "").strip("\n") for key in ("stdout", "stderr", "message")]
            return "\n".join(part for part in parts if part)
        for key in ("content", "response"):  # of a file or a server, and of another agent
            if isinstance(content := output.get(key), str):
                return content
        if all(isinstance(value, str | int | float | bool | None) for value in output.values()):
            return "\n".join(f"{key}: {value}" for key, value in output.items() if value not in (None, ""))
    return json.dumps(output, ensure_ascii=False, indent=2, default=str)


def _summary(output: Any) -> str:
    """Return how much was read or written, for a file: its content would push everything else off the screen."""
    if not isinstance(output, Mapping):
        return ""
    read, total = output.get("lines_read"), output.get("total_lines")
    if isinstance(read, int):
        return counted(read, "line") + (f" of {total:,}" if isinstance(total, int) and total != read else "")
    if isinstance(size := output.get("bytes_written"), int):
        return single_line(
            f"{counted(size, 'byte')} written" + (f"; {warned}" if (warned := output.get("warning")) else "")
        )
    return ""


def shown_in_full(output: ToolOutput) -> Sequence[str]:
    """Return the lines to show for an output in full."""
    return [output.title, *(f"  {line}" for line in output.lines or ("no output",))]
