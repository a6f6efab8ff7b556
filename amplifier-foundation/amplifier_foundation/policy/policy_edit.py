"""Put a rule into a policy file or take one out: comments and order stay, and two writers lose nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.documents import Document, parse_document
from amplifier_foundation.errors import DocumentError, FoundationError
from amplifier_foundation.files import locked, make_private, rewrite_file
from amplifier_kit.guard.regular_file import read_regular

if TYPE_CHECKING:
    from amplifier_kit.guard.policy import Example, Rule

_BOM = b"\xef\xbb\xbf"


class PolicyFileError(FoundationError):
    """A policy file cannot be read, changed or written; it is as it was before."""

    code = "policy_file"


def rule_entry(rule: Rule) -> dict[str, Any]:
    """Return a rule as it stands in a file."""
    names = ("action", "tool", "command", "path", "host", "verdict", "reason")
    entry: dict[str, Any] = {name: getattr(rule, name) for name in names if getattr(rule, name)}
    for name in ("match", "not_match"):
        examples: tuple[Example, ...] = getattr(rule, name)
        if examples:
            entry[name] = [{key: text for key, text in each._asdict().items() if text is not None} for each in examples]
    return entry


def append_rules(path: Path, entries: list[dict[str, Any]]) -> bool:
    """Put entries at the end of a file's rules, those that it has already left out; tell whether it changed.

    A file that does not exist is made, for its owner alone. Raises PolicyFileError, also for an entry with a secret.
    """
    from amplifier_foundation.settings.splice import set_in
    from amplifier_kit.guard.redaction import process_redactor

    if any(process_redactor().scrub(entry).value != entry for entry in entries):
        raise PolicyFileError(f"{path}: a rule that holds a secret is not kept: use a pattern that leaves it out")

    def change(document: Document, text: str) -> tuple[str, list[Any]]:
        rules = list(_rules_of(document))
        for entry in entries:
            if entry not in rules:
                text = set_in(text, ("rules", len(rules)), entry)
                rules.append(entry)
        return text, rules

    return _edit(path, change)


def remove_rule(path: Path, is_meant: Callable[[Any], bool]) -> bool:
    """Take out the first entry that is meant; tell whether there was one. Raises PolicyFileError."""
    from amplifier_foundation.settings.splice import unset_in

    def change(document: Document, text: str) -> tuple[str, list[Any]]:
        rules = list(_rules_of(document))
        for index, entry in enumerate(rules):
            if is_meant(entry):
                return unset_in(text, ("rules", index)), [*rules[:index], *rules[index + 1 :]]
        return text, rules

    return _edit(path, change)


def _edit(path: Path, change: Callable[[Document, str], tuple[str, list[Any]]]) -> bool:
    from amplifier_foundation.settings.splice import CannotSplice

    target = Path(os.path.realpath(path))  # a link to a file elsewhere stays a link
    with _writing(path, target):
        before = _content(target)
        document = parse_document(path, before)
        written = before.decode("utf-8-sig")
        is_crlf = written.count("\r\n") * 2 > written.count("\n")
        text = written.replace("\r\n", "\n")
        try:
            fresh, wanted = change(document, text)
            now = parse_document(path, fresh.encode()).data
        except (CannotSplice, DocumentError, ValueError) as error:
            raise _by_hand(document) from error
        others = {key: value for key, value in document.data.items() if key != "rules"}
        if (now.get("rules") or []) != wanted or {key: now[key] for key in now if key != "rules"} != others:
            raise _by_hand(document)
        if fresh == text:
            return False
        content = (fresh.replace("\n", "\r\n") if is_crlf else fresh).encode()
        rewrite_file(target, _BOM + content if before.startswith(_BOM) else content)
    return True


def _by_hand(document: Document) -> PolicyFileError:
    return PolicyFileError(
        f"{document.where('rules')}: the rules are written in a way that cannot be changed safely (anchors, or an "
        "unusual layout): edit the file by hand"
    )


def _rules_of(document: Document) -> list[Any]:
    rules = document.data.get("rules")
    if rules is not None and not isinstance(rules, list):
        raise PolicyFileError(f"{document.where('rules')}: `rules` is no list: mend the file first")
    return rules or []


def _content(target: Path) -> bytes:
    try:
        return read_regular(target)
    except FileNotFoundError:
        return b""


@contextmanager
def _writing(path: Path, target: Path) -> Iterator[None]:
    """Hold the lock of a policy file; faults of the file and of the file system become PolicyFileError."""
    try:
        make_private(target.parent)
        with locked(target.with_name(f"{target.name}.lock")):
            yield
    except DocumentError as error:
        raise PolicyFileError(str(error)) from error
    except OSError as error:
        raise PolicyFileError(
            f"{path}: cannot be written: {error.strerror or error}: check who owns the folder"
        ) from error
