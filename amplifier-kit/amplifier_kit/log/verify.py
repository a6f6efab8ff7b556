"""Check a log against itself: numbers, hash chain, blobs and lists."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from amplifier_kit.log.blobs import BlobStore
from amplifier_kit.log.reader import LogLine, LogReader, TornLine
from amplifier_kit.log.record import decode, digest
from amplifier_kit.log.references import BLOB, LIST, Chain, apply_delta, chain_of, chain_of_digests, references
from amplifier_kit.named_tuple import NamedTuple

Kind = Literal["gap", "order", "chain", "blob", "list"]

#: Problems beyond this many are counted, not described.
_DESCRIBED = 1000
_BLOBS_REMEMBERED = 65_536
_LISTS_REMEMBERED = 16


class Problem(NamedTuple):
    """An inconsistency, and where it is."""

    kind: Kind
    path: Path
    #: The line, counted from 1 in its file.
    number: int
    text: str


@dataclass
class LogReport:
    lines: int = 0
    #: Lines without `seq`, written by the published logger.
    unnumbered: int = 0
    #: Lines that have the hash of the one before.
    chained: int = 0
    #: Lines that the writer reported as lost.
    dropped: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    #: The hash of the last line; stored elsewhere, it shows later whether the end was cut off.
    head: str | None = None
    torn: list[TornLine] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or changed. Torn lines and reported losses are not problems."""
        return self.problem_count == 0


def verify_log(location: Path | str) -> LogReport:
    """Read a log from its first file to its last and report every inconsistency; raises OSError."""
    report = LogReport()
    reader = LogReader(location, report.torn.append)
    check = _Check(report, reader.blobs, starts_late=reader.starts_late)
    try:
        for line in reader.poll():
            check.line(line)
        reader.report_unfinished()
    finally:
        reader.close()
    return report


class _Check:
    def __init__(self, report: LogReport, blobs: BlobStore, *, starts_late: bool) -> None:
        self._report = report
        self._blobs = blobs
        self._starts_late = starts_late
        self._good_blobs: set[str] = set()
        #: The last lists.
        self._lists: OrderedDict[str, Chain] = OrderedDict()

    def line(self, line: LogLine) -> None:
        """Check one line against the ones before it."""
        report = self._report
        report.lines += 1
        self._check_number(line)
        self._check_chain(line)
        if b'"$' in line.raw:
            self._check_references(line, line.record)
        report.head = digest(line.raw)

    def _check_number(self, line: LogLine) -> None:
        report, seq = self._report, line.seq
        if seq is None:
            report.unnumbered += 1
            return
        dropped = line.record.get("dropped")
        dropped = dropped if isinstance(dropped, int) else 0
        report.dropped += dropped
        last = report.last_seq
        if last is None:
            report.first_seq = seq
            last = seq - 1 - dropped if self._starts_late else 0
        if seq <= last:
            self._add("order", line, f"seq {seq} comes after seq {last}")
        elif seq != last + 1 + dropped:
            lost = seq - last - 1
            self._add(
                "gap", line, f"{lost} lines are missing between seq {last} and {seq}, {dropped} are accounted for"
            )
        report.last_seq = seq

    def _check_chain(self, line: LogLine) -> None:
        prev = line.record.get("prev")
        if prev is None:
            if self._report.chained:
                self._add("chain", line, "it has no hash of the line before it, unlike the lines before it")
            return
        self._report.chained += 1
        before = self._report.head
        if before is None and self._starts_late:
            return
        if prev != (before or digest(b"")):
            self._add("chain", line, f"prev {prev} is not the hash of the line before it")

    def _check_references(self, line: LogLine, value: Any) -> None:
        for reference in references(value):
            try:
                if LIST in reference:
                    self._check_list(line, reference)
                else:
                    self._check_blob(line, reference)
            except (LookupError, ValueError) as error:
                self._add("list" if LIST in reference else "blob", line, str(error.args[0]))

    def _check_blob(self, line: LogLine, reference: dict[str, Any]) -> None:
        name = reference[BLOB]
        if name in self._good_blobs:
            return
        content = self._blobs.content(name)
        if len(content) != reference.get("bytes"):
            raise LookupError(f"Blob {name} has {len(content)} bytes, not {reference.get('bytes')!r}")
        if len(self._good_blobs) >= _BLOBS_REMEMBERED:
            self._good_blobs.clear()
        self._good_blobs.add(name)
        if b'"$' in content:
            self._check_references(line, decode(content))

    def _check_list(self, line: LogLine, reference: dict[str, Any]) -> None:
        """Check the items of a list against its name."""
        name, base = reference[LIST], reference.get("base")
        start = [] if base is None else self._digests_of(line, base)
        added = line.expand(reference.get("append"))
        if not isinstance(added, list):
            raise LookupError(f"List {name} has no items")
        chain = chain_of_digests(apply_delta(start, reference.get("keep"), chain_of(added).items()))
        if chain.name != name:
            raise LookupError(f"List {name} is damaged: its items do not match its name")
        self._lists[name] = chain
        self._lists.move_to_end(name)
        if len(self._lists) > _LISTS_REMEMBERED:
            self._lists.popitem(last=False)

    def _digests_of(self, line: LogLine, name: str) -> list[bytes]:
        known = self._lists.get(name)
        return (known or chain_of(line.expand({LIST: "", "base": name, "append": []}))).items()

    def _add(self, kind: Kind, line: LogLine, text: str) -> None:
        report = self._report
        report.problem_count += 1
        if len(report.problems) < _DESCRIBED:
            report.problems.append(Problem(kind, line.path, line.number, text))
