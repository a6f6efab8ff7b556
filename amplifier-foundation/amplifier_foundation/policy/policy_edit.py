"""Add a rule to a policy file or remove one: comments and order stay, and two writers lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_foundation.yaml_edit import Draft
    from amplifier_kit.guard.policy import Example, Rule


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
    """Append entries to a file's rules, except those that it has already; return whether it changed.

    A missing file is created for its owner alone. Raises PolicyFileError, also for an entry with a secret.
    """
    from amplifier_foundation.yaml_edit import edit_file
    from amplifier_kit.guard.redaction import process_redactor

    if any(process_redactor().scrub(entry).value != entry for entry in entries):
        raise PolicyFileError(f"{path}: a rule that holds a secret is not kept: use a pattern that leaves it out")
    with edit_file(path, PolicyFileError) as draft:
        text = draft.text
        for entry in entries:
            rules = _rules_of(draft)
            if entry not in rules:
                draft.set(("rules", len(rules)), entry)
    return draft.text != text


def remove_rule(path: Path, is_meant: Callable[[Any], bool]) -> bool:
    """Remove the first entry that is meant; return whether there was one. Raises PolicyFileError."""
    from amplifier_foundation.yaml_edit import edit_file

    with edit_file(path, PolicyFileError) as draft:
        index = next((index for index, entry in enumerate(_rules_of(draft)) if is_meant(entry)), None)
        if index is not None:
            draft.unset(("rules", index))
    return index is not None


def _rules_of(draft: Draft) -> list[Any]:
    rules = draft.data.get("rules")
    if rules is not None and not isinstance(rules, list):
        raise PolicyFileError(f"{draft.document.where('rules')}: `rules` must be a list: repair the file first")
    return rules or []
