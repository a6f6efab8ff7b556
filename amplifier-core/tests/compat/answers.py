"""The recorded answers of the published kernel, and how an observation is compared with them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .scenarios.base import AREAS

HERE = Path(__file__).parent
ANSWERS = HERE / "answers"
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One place in one scenario's observation where two kernels differ."""

    scenario: str
    place: str
    ours: Any
    peer: Any

    def __str__(self) -> str:
        return f"{self.scenario} at {self.place}\n  ours: {_short(self.ours)}\n  peer: {_short(self.peer)}"


@dataclass(frozen=True)
class Intended:
    """A difference we want: the scenarios and places it covers, and the decision behind it."""

    scenario: str
    place: str
    decision: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Return whether this entry speaks of that difference."""
        return fnmatchcase(difference.scenario, self.scenario) and fnmatchcase(difference.place, self.place)


def read_intended(path: Path = HERE / "intended.toml") -> list[Intended]:
    """Read the list of intended differences."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["intended"]
    return [Intended(e["scenario"], e.get("at", "*"), e["decision"], " ".join(e["reason"].split())) for e in entries]


def read_answers(folder: Path = ANSWERS) -> dict[str, Any]:
    """Read what the published kernel answered, by the ids of the scenarios."""
    return {
        f"{path.stem}.{name}": answer
        for path in sorted(folder.glob("*.json"))
        for name, answer in json.loads(path.read_text(encoding="utf-8")).items()
    }


def write_answers(answers: dict[str, Any], folder: Path = ANSWERS) -> None:
    """Write the answers, a file for each area, and remove the files of areas that are gone."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for area in AREAS:
        prefix = f"{area}."
        found = {name.removeprefix(prefix): answers[name] for name in answers if name.startswith(prefix)}
        text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
        (folder / f"{area}.json").write_text(f"{text}\n", encoding="utf-8")


def differences(scenario: str, ours: Any, peer: Any, place: str = "") -> Iterator[Difference]:
    """Yield the places where two observations differ, named like `0.data.session_id`."""
    if isinstance(ours, dict) and isinstance(peer, dict):
        for key in sorted({*ours, *peer}):
            inner = f"{place}.{key}" if place else str(key)
            yield from differences(scenario, ours.get(key, ABSENT), peer.get(key, ABSENT), inner)
    elif isinstance(ours, list) and isinstance(peer, list) and len(ours) == len(peer):
        for index, (left, right) in enumerate(zip(ours, peer, strict=True)):
            yield from differences(scenario, left, right, f"{place}.{index}" if place else str(index))
    elif ours != peer or type(ours) is not type(peer):
        yield Difference(scenario, place or "(all)", ours, peer)


def compare(ours: dict[str, Any], peer: dict[str, Any]) -> list[Difference]:
    """Return every difference between what two kernels observed."""
    names = dict.fromkeys([*ours, *peer])
    return [found for name in names for found in differences(name, ours.get(name, ABSENT), peer.get(name, ABSENT))]


def unlisted(found: Iterable[Difference], intended: Iterable[Intended]) -> list[Difference]:
    """Return the differences that no entry covers."""
    entries = list(intended)
    return [difference for difference in found if not any(entry.covers(difference) for entry in entries)]


def stale(found: Iterable[Difference], intended: Iterable[Intended]) -> list[Intended]:
    """Return the entries that cover no difference."""
    seen = list(found)
    return [entry for entry in intended if not any(entry.covers(difference) for difference in seen)]


def _short(value: Any, width: int = 300) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"
