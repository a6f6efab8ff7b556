"""Check JSONL files from inside: which values their lines have, in which order, and which they must not have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_digital_twin.files import InnerFile
from amplifier_digital_twin.profile.model import JsonlExpectation

_SHOWN: Final = 20


def check_jsonl(expectation: JsonlExpectation, files: Sequence[InnerFile]) -> tuple[str, list[dict[str, Any]]]:
    """Return in what files differ from what was expected (empty when they do not), and what was seen in each."""
    by_file = {file.path: judge(expectation, file.content) for file in files}
    return _together(expectation, by_file), [_summary(expectation, file, by_file[file.path]) for file in files]


def judge(expectation: JsonlExpectation, content: bytes) -> list[str]:
    """Return what is wrong with one file; nothing if it is as expected."""
    values, lines, problems = _parse(expectation.key, content)
    for value in expectation.has:
        if value not in values:
            problems.append(f"no line has {expectation.key} {value!r}")
        elif not any(_as_grep_finds_it(expectation.key, value) in line for line in lines):
            problems.append(f"no line has {_as_grep_finds_it(expectation.key, value)!r}, as `grep` finds it")
    if expectation.in_order and not problems:
        late = _first_out_of_order(expectation.has, values)
        if late is not None:
            problems.append(f"{late!r} is out of order: {', '.join(expectation.has)}")
    for value in expectation.lacks:
        if value in values:
            problems.append(f"a line has {expectation.key} {value!r}, and must not")
    return problems


def _parse(key: str, content: bytes) -> tuple[list[Any], list[str], list[str]]:
    values: list[Any] = []
    lines: list[str] = []
    problems: list[str] = []
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = raw.decode("utf-8")
            record = json.loads(line)
        except (ValueError, RecursionError):
            problems.append(f"line {number} is not JSON")
            continue
        if not isinstance(record, dict):
            problems.append(f"line {number} is not a JSON object")
            continue
        lines.append(line)
        values.append(record.get(key))
    return values, lines, problems[:_SHOWN]


def _as_grep_finds_it(key: str, value: str) -> str:
    """Return how a line must be written, space after the colon included: other tools search for this text."""
    return f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"


def _first_out_of_order(wanted: Sequence[str], values: Sequence[Any]) -> str | None:
    """Return the first value that does not follow the ones before it."""
    rest = iter(values)
    for value in wanted:
        if value not in rest:
            return value
    return None


def _together(expectation: JsonlExpectation, by_file: Mapping[str, list[str]]) -> str:
    if not by_file:
        return f"{expectation.glob}: no such file"
    faulty = {path: problems for path, problems in by_file.items() if problems}
    if not faulty or (expectation.files == "any" and len(faulty) < len(by_file)):
        return ""
    path, problems = next(iter(faulty.items()))
    more = f" (and {len(faulty) - 1} more files)" if len(faulty) > 1 else ""
    return f"{path}: {'; '.join(problems)}{more}"


def _summary(expectation: JsonlExpectation, file: InnerFile, problems: list[str]) -> dict[str, Any]:
    values, _, _ = _parse(expectation.key, file.content)
    counts: dict[str, int] = {}
    for value in values:
        counts[str(value)[:200]] = counts.get(str(value)[:200], 0) + 1
    # A hostile log can hold any number of different values: only so many are reported.
    return {"path": file.path, "lines": len(values), "values": dict(list(counts.items())[:200]), "problems": problems}
