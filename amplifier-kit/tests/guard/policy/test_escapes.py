"""Ways around the rules, by kind: none is allowed, though what looks like it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rule_parser import parse_rules
from amplifier_kit.guard.policy.rules import RuleSet

CORPUS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "corpus" / "escapes.yaml").read_text(encoding="utf-8"))
REFUSED = [(kind, text) for kind, entry in CORPUS["kinds"].items() for text in entry["refused"]]
ALLOWED = [(kind, text) for kind, entry in CORPUS["kinds"].items() for text in entry["allowed"]]


class Place:
    """A project with the tree and the links of the corpus, and its rules."""

    def __init__(self, folder: Path) -> None:
        self.project, self.outside = folder / "p", folder / "outside"
        for name in CORPUS["tree"]:
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text("x", encoding="utf-8")
        self.outside.write_text("x", encoding="utf-8")
        for name, target in CORPUS["links"].items():
            (self.project / name).symlink_to(self.filled(target))
        self.rules = {kind: self._rules(kind) for kind in CORPUS["kinds"]}

    def _rules(self, kind: str) -> RuleSet:
        """Return the rules of all kinds with those besides of this one, or what it has in their place."""
        entries = CORPUS["instead"].get(kind, [*CORPUS["rules"], *CORPUS["besides"].get(kind, [])])
        rules, problems = parse_rules(entries, lambda index, key: f"escapes.yaml[{index}]")
        assert problems == []
        return RuleSet(rules, self.project)

    def filled(self, text: str) -> str:
        """Return a text with the places of this project in it."""
        return text.replace("{project}", str(self.project)).replace("{outside}", str(self.outside))

    def verdicts(self, kind: str, text: str) -> set[str | None]:
        """Return what the rules say: for a path about reading and about writing it."""
        given = self.filled(text)
        actions = {
            "path": [("filesystem.read", {"file_path": given}), ("filesystem.write", {"file_path": given})],
            "command": [("process.exec", {"command": given})],
            "host": [("network.fetch", {"url": given})],
        }[CORPUS["kinds"][kind]["what"]]
        return {
            self.rules[kind].decide(facts(action, {"tool_name": "x", "tool_input": inputs}, self.project)).verdict
            for action, inputs in actions
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Make the project."""
    return Place(tmp_path_factory.mktemp("place").resolve())


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_a_way_around_is_not_allowed(kind: str, text: str, place: Place) -> None:
    """Whatever the disguise, it is asked for or denied."""
    assert "allow" not in place.verdicts(kind, text)


@pytest.mark.parametrize(("kind", "text"), ALLOWED)
def test_what_looks_like_it_is_allowed(kind: str, text: str, place: Place) -> None:
    """The rules are not merely deaf: the honest form of the same thing passes."""
    assert place.verdicts(kind, text) == {"allow"}


@pytest.mark.parametrize("command", ["ls caf\u00e9", "echo 'gr\u00fc\u00dfe aus \u6771\u4eac'", "ls caf\u00e9\nls x"])
def test_letters_that_can_be_seen_are_letters(command: str, place: Place) -> None:
    """A command may be about files and texts in any language."""
    assert place.verdicts("quoting", command) == {"allow"}
