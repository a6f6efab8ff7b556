"""Part two of the benchmark: the same scenarios on both kernels, and every difference in what they observe."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from children import HERE, Kernel, run
from scenarios.base import AREAS

SECONDS_FOR_AN_AREA = 60.0
SECONDS_FOR_ONE = 20.0
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One place in one scenario's observation where the kernels differ."""

    scenario: str
    place: str
    ours: Any
    peer: Any


@dataclass
class Intended:
    """A difference we want: the scenarios and places it covers, the decision behind it, and where it was seen."""

    scenario: str
    place: str
    decision: str
    reason: str
    seen: list[Difference] = field(default_factory=list)

    def covers(self, difference: Difference) -> bool:
        """Say whether this entry speaks of that difference."""
        return fnmatchcase(difference.scenario, self.scenario) and fnmatchcase(difference.place, self.place)


@dataclass
class Comparison:
    """Everything part two found."""

    scenarios: int
    equal: int
    intended: list[Intended]
    unlisted: list[Difference]

    @property
    def stale(self) -> list[Intended]:
        """Return the entries that no longer meet a difference."""
        return [entry for entry in self.intended if not entry.seen]


def read_intended(path: Path | None = None) -> list[Intended]:
    """Read the list of intended differences."""
    text = (path or HERE / "scenarios" / "intended.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["intended"]
    return [Intended(e["scenario"], e.get("at", "*"), e["decision"], " ".join(e["reason"].split())) for e in entries]


def play_area(kernel: Kernel, area: str) -> dict[str, Any]:
    """Play an area's scenarios in one process; those that want one of their own, and those that were lost, get it."""
    with tempfile.TemporaryDirectory() as folder:
        ended = run(kernel, "scenario_child.py", area, "--folder", folder, seconds=SECONDS_FOR_AN_AREA)
    if not ended.lines or "plan" not in ended.lines[0]:
        return {f"{area}.(all)": {"area_failed": ended.error.strip().splitlines()[-1:]}}
    observed = {line["id"]: line["observed"] for line in ended.lines[1:]}
    for identity in ended.lines[0]["plan"]:
        if identity not in observed:
            observed[identity] = play_alone(kernel, area, identity)
    return observed


def play_alone(kernel: Kernel, area: str, identity: str) -> Any:
    """Play one scenario in its own process; hanging and dying are observations too."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (area, "--folder", folder, "--only", identity)
        ended = run(kernel, "scenario_child.py", *arguments, seconds=SECONDS_FOR_ONE)
    for line in ended.lines:
        if line.get("id") == identity:
            return line["observed"]
    return {"hung": True} if ended.status is None else {"process_died_with_status": ended.status}


def play_all(kernel: Kernel) -> dict[str, Any]:
    """Play every area on one kernel."""
    observed: dict[str, Any] = {}
    for area in AREAS:
        observed.update(play_area(kernel, area))
    return observed


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


def compare(ours: dict[str, Any], peer: dict[str, Any], intended: list[Intended]) -> Comparison:
    """Compare what both kernels observed."""
    equal, unlisted = 0, []
    failed = tuple(name.removesuffix("(all)") for name in {*ours, *peer} if name.endswith(".(all)"))
    identities = [
        name for name in dict.fromkeys([*ours, *peer]) if name.endswith(".(all)") or not name.startswith(failed)
    ]
    for identity in identities:
        found = list(differences(identity, ours.get(identity, ABSENT), peer.get(identity, ABSENT)))
        equal += not found
        for difference in found:
            covering = [entry for entry in intended if entry.covers(difference)]
            for entry in covering:
                entry.seen.append(difference)
            if not covering:
                unlisted.append(difference)
    return Comparison(len(identities), equal, intended, unlisted)


def play_and_compare(ours: Kernel, peer: Kernel) -> Comparison:
    """Play everything on both kernels, side by side, and compare."""
    with ThreadPoolExecutor(2) as pool:
        left = pool.submit(play_all, ours)
        right = pool.submit(play_all, peer)
        return compare(left.result(), right.result(), read_intended())


def short(value: Any, width: int = 300) -> str:
    """Return a value as one line of JSON, cut to a readable width."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"


def render(result: Comparison) -> str:
    """Return the section of the document."""
    differing = {difference.scenario for entry in result.intended for difference in entry.seen}
    counts = (
        f"{result.scenarios} scenarios ran unchanged on both kernels. In {result.equal} of them everything observed is "
        f"equal; {len(differing)} differ on purpose; unlisted differences: {len(result.unlisted)}."
    )
    lines = [
        counts,
        "",
        "Differences on purpose (the decisions are those of the kernel's contract):",
        "",
    ]
    grouped: dict[tuple[str, str], set[str]] = {}
    for entry in result.intended:
        names = {difference.scenario for difference in entry.seen}
        grouped.setdefault((entry.decision, entry.reason), set()).update(names)
    for (decision, reason), names in grouped.items():
        where = ", ".join(f"`{name}`" for name in sorted(names)) or "no longer seen"
        lines.append(f"- **{decision}** {reason} ({where})")
    lines += [
        f"- **unlisted** `{d.scenario}` at `{d.place}`: ours `{short(d.ours)}`, peer `{short(d.peer)}`"
        for d in result.unlisted
    ]
    return "\n".join(lines)
