"""Write the table of what each provider supports, from the tests that hold them to it.

    python docs/make_providers.py            rewrite the tables of `docs/providers.md`
    python docs/make_providers.py --check    exit with 1 when they are not what the tests say

A provider's tests inherit the tests that every provider must pass. One that is inherited is a yes: `make test` runs it.
One that a provider has its own version of is told in a note, in the words of that test; one that it leaves out is a no,
with the reason that its tests give.
"""

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "providers.md"
TABLES = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end of tables -->)", re.DOTALL)
BASES = (ProviderConformance, FaultConformance)


class Subject(NamedTuple):
    """A provider, or one of its ways, as its tests know it."""

    name: str
    suites: tuple[type[ConformanceBase], ...]


def suites_of(module: ModuleType) -> Iterator[tuple[str, type[ConformanceBase]]]:
    """Yield the suites of a test file, each with what it is about."""
    for name, found in vars(module).items():
        if inspect.isclass(found) and issubclass(found, BASES) and found not in BASES and name.startswith("Test"):
            # The class that all suites of one way share stands last.
            yield [each.__name__ for each in found.__mro__ if each.__name__.startswith("_")][-1], found


def subjects() -> list[Subject]:
    """Return all providers that are held to what every provider does."""
    found: list[Subject] = []
    for file in sorted(ROOT.glob("modules/provider-*/tests/test_conformance.py")):
        folder = file.parent.parent.name
        spec = importlib.util.spec_from_file_location(f"conformance_{folder.replace('-', '_')}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        suites: dict[str, list[type[ConformanceBase]]] = {}
        for about, suite in suites_of(module):
            if unknown := set(suite.without) - {name for name, _ in rules()}:
                raise ValueError(f"{folder}: tests that are none are left out: {', '.join(sorted(unknown))}")
            suites.setdefault(about, []).append(suite)
        for about, some in suites.items():
            way = f" ({about.strip('_').lower()})" if len(suites) > 1 else ""
            found.append(Subject(f"{folder.removeprefix('provider-')}{way}", tuple(some)))
    return found


def rules() -> list[tuple[str, str]]:
    """Return the tests that every provider must pass, each with the rule it states."""
    return [
        (name, first_line(test))
        for base in BASES
        for name, test in vars(base).items()
        if name.startswith("test_") and callable(test)
    ]


def first_line(test: Any) -> str:
    """Return the rule that a test states, on one line."""
    return " ".join((inspect.getdoc(test) or "").split())


def cell(subject: Subject, name: str, notes: list[str]) -> str:
    """Return what a provider makes of a rule; what is left out, and a version of its own, become notes."""
    suite = next((suite for suite in subject.suites if hasattr(suite, name)), None)
    if suite is None:
        return "not tested"
    reason = suite.without.get(name)
    if reason is not None:
        return f"no ({noted(f'{subject.name}: {reason}', notes)})"
    test = getattr(suite, name)
    if any(test is getattr(base, name, None) for base in BASES):
        return "yes"
    return f"its own way ({noted(f'{subject.name}: {first_line(test)}', notes)})"


def noted(text: str, notes: list[str]) -> int:
    """Return the number of a note, which is added when it is new."""
    if text not in notes:
        notes.append(text)
    return notes.index(text) + 1


def tables() -> str:
    """Return the tables, and the notes under them."""
    known, notes = subjects(), list[str]()
    lines = [f"| What | {' | '.join(subject.name for subject in known)} |", f"| --- |{' --- |' * len(known)}"]
    for name, rule in rules():
        cells = [cell(subject, name, notes) for subject in known]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, start=1))]
    return "\n".join(["", *lines, "", ""])


def page() -> str:
    """Return the page as it should be."""
    return TABLES.sub(lambda _: tables(), PAGE.read_text(encoding="utf-8"))


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
