"""The numbers on the page about security are those of the corpora and tests that it names."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
POLICY = "amplifier-kit/tests/guard/policy/corpus"
NET = "amplifier-kit/tests/guard/network/corpus"
#: What of a corpus is let through; everything else in it is refused.
LET_THROUGH = {"allow", "allowed", "public", "read", "mixed"}
#: The lists of each corpus, by the path to them; the number of other entries does not count.
CORPORA = {
    f"{POLICY}/commands.yaml": ("cases",),
    f"{POLICY}/paths.yaml": ("cases",),
    f"{POLICY}/hosts.yaml": ("cases",),
    f"{NET}/addresses.yaml": (),
    f"{NET}/urls.yaml": (),
    f"{NET}/redirects.yaml": (),
    f"{POLICY}/escapes.yaml": ("kinds",),
}
TESTS = (
    "amplifier-kit/tests/guard/files/test_swaps.py",
    "modules/tool-filesystem/tests/test_escapes.py",
    "modules/tool-web/tests/test_redirects.py",
    "amplifier-kit/tests/guard/network/test_ssrf.py",
    "amplifier-kit/tests/guard/processes/test_leftovers.py",
    "amplifier-kit/tests/guard/files/test_trouble.py",
    "modules/tool-apply-patch/tests/test_full_disk.py",
    "modules/tool-web/tests/test_full_disk.py",
)
#: The kinds of escapes that must be there.
KINDS = {
    *("dots", "absolute", "symbolic links", "case", "proc", "look-alikes in paths", "look-alikes in commands"),
    *("look-alikes in hosts", "quoting", "here-documents", "command substitution", "environment", "IPv6 forms"),
    *("decimal, octal and hexadecimal forms", "words that part", "options in disguise", "marks that end no options"),
    *("programs of awk", "test runners and builders", "files sent and written", "numbers that are calculated"),
    *(
        "options that run or write",
        "descriptors that are closed",
        "lines inside of tests",
        "words before the program",
        "shells that are not bash",
        "files known only when it runs",
        "options behind runners",
        "repositories in other folders",
        "programs that git names",
        "linters, builders and reports",
    ),
}


def _lists(data: Any, name: str = "") -> list[tuple[str, list[Any]]]:
    """Return every list of entries in a corpus, with its name."""
    if isinstance(data, list):
        return [(name, data)]
    return [pair for key, value in data.items() for pair in _lists(value, key)] if isinstance(data, dict) else []


@cache
def _corpus(path: str) -> Any:
    data = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    for key in CORPORA[path]:
        data = data[key]
    return data


def corpora() -> dict[str, tuple[int, int]]:
    """Return how many entries each corpus has, and how many of them are not let through."""
    found = {}
    for path in CORPORA:
        lists = _lists(_corpus(path))
        refused = sum(len(entries) for name, entries in lists if name not in LET_THROUGH)
        found[path] = (sum(len(entries) for _, entries in lists), refused)
    return found


def kinds() -> dict[str, tuple[int, int]]:
    """Return how many escapes of each kind are refused, and how many look-alikes are allowed."""
    found: dict[str, Any] = _corpus(f"{POLICY}/escapes.yaml")
    return {kind: (len(entry["refused"]), len(entry["allowed"])) for kind, entry in found.items()}


def counted_tests() -> dict[str, tuple[int]]:
    """Return how many tests each file has."""
    pattern = re.compile(r"^(?:async )?def test_", re.MULTILINE)
    return {path: (len(pattern.findall((ROOT / path).read_text(encoding="utf-8"))),) for path in TESTS}


def pairs() -> tuple[int, int]:
    """Return how many calls the test of permissions makes without sampling, with one approver and with several."""
    path = ROOT / "tests" / "permissions" / "test_permission_paths.py"
    spec = importlib.util.spec_from_file_location("permission_paths_counted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return len(module.PAIRS), len(module.CHAINED)


def _rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").partition("## What was tried")[2].partition("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def _said(names: set[str], numbers: int) -> dict[str, tuple[int, ...]]:
    """Return what the tables of the page say of these files or kinds."""
    found = {}
    for row in _rows():
        name = re.sub(r"^\[.*\]\(\.\./(.*)\)$", r"\1", row[0])
        if name in names:
            assert name not in found, f"{name} is there twice"
            found[name] = tuple(int(cell.replace(",", "")) for cell in row[1 : 1 + numbers])
    return found


def test_the_page_counts_the_corpora() -> None:
    """Every corpus is named with its number of entries and of those that are refused."""
    assert _said(set(corpora()), 2) == corpora()


def test_the_page_counts_the_kinds() -> None:
    """Every kind of escape is there, has cases of both sorts, and is counted."""
    assert set(kinds()) == KINDS
    assert all(refused >= 5 and allowed for refused, allowed in kinds().values())
    assert _said(set(kinds()), 2) == kinds()


def test_the_page_counts_the_tests() -> None:
    """Every file of tests that the page names has as many as the page says."""
    assert _said(set(counted_tests()), 1) == counted_tests()


def test_the_page_counts_the_ways() -> None:
    """The number of calls that meet every two behaviours is the real one."""
    page, (alone, chained) = " ".join(PAGE.read_text(encoding="utf-8").split()), pairs()
    assert f"{alone:,} calls with every two" in page
    assert f"{chained:,} calls whose question is left by one approver to the next" in page


def test_every_corpus_is_counted() -> None:
    """No corpus is left out of the page."""
    assert {str(path.relative_to(ROOT)) for folder in (POLICY, NET) for path in (ROOT / folder).iterdir()} == set(
        CORPORA
    )


def test_the_default_rules_are_shown() -> None:
    """The page shows every rule that the program ships with."""
    from amplifier_foundation.policy.policy_file import default_rules

    text = PAGE.read_text(encoding="utf-8")
    assert all(f"\n{rule} " in text for rule in default_rules().rules)
