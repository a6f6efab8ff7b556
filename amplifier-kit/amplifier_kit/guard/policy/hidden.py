"""Tell which places a tool that looks at many must leave out: those that a rule restricts by their path."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from amplifier_kit.guard.policy.glob import compiled
from amplifier_kit.guard.policy.places import folded, pattern_parts, restricted_forms
from amplifier_kit.guard.policy.rule import Rule

_READ: Final = "filesystem.read"
#: Folders whose state is kept: most paths that are asked for lie where the last ones did.
_MOST_FOLDERS: Final = 10_000

_Pattern = tuple[str, ...]
#: How far each pattern has come that can still mean something below.
_State = tuple[tuple[_Pattern, frozenset[int]], ...]


class HiddenPlaces:
    """What rules of a tool ask for or deny, by the real path of a place."""

    def __init__(self, rules: Iterable[Rule], project: Path, home: Path | None) -> None:
        self._rules = tuple(rules)
        self._project = project
        self._home = home
        patterns = {form for rule in self._rules for form in _forms(rule, project, home)}
        self._start: _State = tuple((pattern, _closed(pattern, {0})) for pattern in patterns)
        self._folders: dict[str, _State] = {}

    def __call__(self, path: str) -> bool:
        """Tell whether a rule asks for reading this place, or denies it."""
        folder, _, name = path.rpartition("/")
        return any(len(pattern) in places for pattern, places in _advanced(self._at(folder), name))

    def within(self, place: str) -> HiddenPlaces | None:
        """Return what is hidden below a place that a call was allowed to look at; None when nothing is.

        A rule that asks for the place itself was answered with the call: it does not ask again for what lies there.
        """
        left = [rule for rule in self._rules if rule.verdict == "deny" or not self._means(rule, place)]
        return HiddenPlaces(left, self._project, self._home) if left else None

    def _means(self, rule: Rule, place: str) -> bool:
        return HiddenPlaces([rule], self._project, self._home)(place)

    def _at(self, folder: str) -> _State:
        state = self._folders.get(folder)
        if state is None:
            state = self._start
            for name in folder.split("/"):
                state = _advanced(state, name)
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            self._folders[folder] = state
        return state


def hidden_places(rules: Iterable[Rule], project: Path, tool: str, *, home: Path | None = None) -> HiddenPlaces | None:
    """Return what tells whether a rule asks for reading a place by `tool`, or denies it; None when no rule does.

    A search is allowed by the folder that it looks at. What lies below may be another matter: whoever shows it asks
    this for each path, absolute and with all links followed. Rules that name no path are held against the call as a
    whole, and hide nothing.
    """
    actions = (_READ, f"tool.{tool}")
    known = [rule for rule in rules if rule.verdict != "allow" and _fits(rule, actions, tool)]
    return HiddenPlaces(known, project, home) if known else None


def _fits(rule: Rule, actions: tuple[str, ...], tool: str) -> bool:
    if rule.path is None or (rule.tool is not None and not compiled(rule.tool).match(tool)):
        return False
    return rule.action is None or any(compiled(rule.action).match(action) for action in actions)


def _forms(rule: Rule, project: Path, home: Path | None) -> set[_Pattern]:
    if rule.path is None:
        return set()
    return restricted_forms(pattern_parts(rule.path, project, home), is_exact=rule.is_exact)


def _advanced(state: _State, name: str) -> _State:
    """Return the state one name further down."""
    if name in ("", "."):
        return state
    # A letter may stand for several, a slash among them.
    for step in (name.lower() if name.isascii() else folded(name)).split("/"):
        if step:
            moved = ((pattern, _moved(pattern, places, step)) for pattern, places in state)
            state = tuple((pattern, places) for pattern, places in moved if places)
    return state


def _moved(pattern: _Pattern, places: frozenset[int], step: str) -> frozenset[int]:
    further: set[int] = set()
    for place in places:
        if place == len(pattern):
            continue
        if pattern[place] == "**":
            further.add(place)
        elif compiled(pattern[place]).match(step):
            further.add(place + 1)
    return _closed(pattern, further)


def _closed(pattern: _Pattern, places: set[int]) -> frozenset[int]:
    """Add where a `**` that stands for nothing leads."""
    for place in sorted(places):
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            places.add(place)
    return frozenset(places)
