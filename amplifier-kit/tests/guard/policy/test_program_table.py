"""The table of programs: every example of every row, the schema, and the quick search for rows."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy import Rule, RuleSet, facts
from amplifier_kit.guard.policy.programs import (
    FILE,
    Command,
    Program,
    ProgramError,
    every_program,
    load_row,
    program_row,
    variables,
)

TABLE = tomllib.loads(files("amplifier_kit.guard.policy").joinpath(FILE).read_text(encoding="utf-8"))
ROWS = list(every_program())


def _lines(row: Command, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the examples of a row with their kind: those that begin with its name once for each other name as well."""
    for kind in ("allowed", "asked", "refused"):
        for line in getattr(row.examples, kind):
            yield line, kind
            name, blank, rest = line.partition(" ")
            for alias in names[1:] if name == names[0] else ():
                yield f"{alias}{blank}{rest}{' ]' * (alias == '[')}", kind


def _examples() -> list[tuple[str, str]]:
    found = list(_lines(Command("variables", examples=variables().examples), ("",)))
    for program in ROWS:
        names = (program.name, *program.aliases)
        for row in (program, *program.commands.values()):
            found += _lines(row, names)
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a repository."""
    project = tmp_path_factory.mktemp("place").resolve() / "app"
    for name in (".git/HEAD", "src/main.py", "../other/.git/HEAD"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x", encoding="utf-8")
    return project


@pytest.mark.parametrize(("line", "kind"), _examples())
def test_an_example_is_judged_as_its_row_says(line: str, kind: str, project: Path) -> None:
    """With every command allowed but `rm`: allowed is understood, asked is not, refused runs what is denied."""
    rules = RuleSet([Rule("allow", command="*"), Rule("deny", command="rm *")], project)
    decision = rules.decide(facts("process.exec", {"command": line}, project))
    expected = {"allow": "allowed", "ask": "asked", None: "asked", "deny": "refused"}
    assert expected[decision.verdict] == kind, decision


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.name)
def test_a_row_that_restricts_shows_what(program: Program) -> None:
    """A row has an example that is asked for or refused, unless it only says that the program looks."""
    for row in (program, *program.commands.values()):
        assert row.only_looks or row.examples.asked or row.examples.refused, row.name


def test_the_quick_search_finds_what_a_parser_of_toml_finds() -> None:
    """All rows are found, by every name, and no name belongs to two of them."""
    assert [row.name for row in ROWS] == list(TABLE["programs"])
    names = [name for row in ROWS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    for row in ROWS:
        assert row == load_row(row.name, TABLE["programs"][row.name])
        assert all(program_row(name) == row for name in (row.name, *row.aliases))
    for name, expected in {"python3.12": "python", "ld-musl.so.1": "ld.so", "git-absorb": "git-lfs"}.items():
        found = program_row(name)
        assert found is not None
        assert found.name == expected
    assert program_row("a program that has no row") is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"optoins": ["-o"]}, "row 'x': unknown key 'optoins' (did you mean 'options'?)"),
        ({"options": "-o"}, "row 'x': options is '-o': expected a list of texts"),
        ({"words": ["("]}, "row 'x': words is ['(']: missing ), unterminated subpattern"),
        ({"runs": "anything"}, "row 'x': runs is 'anything': expected one of words, options"),
        ({"transparent": 1}, "row 'x': transparent is 1: expected bool"),
        ({"operands": "1"}, "row 'x': operands is '1': expected int"),
        ({"values": [{"option": "-f"}]}, "row 'x': unknown key 'option' (did you mean 'options'?)"),
        ({"values": [{"options": ["-f"]}]}, "row 'x': values is [{'options': ['-f']}]: "),
        ({"commands": {"y": {"runs": "words"}}}, "row 'x y': unknown key 'runs'"),
        ({"options": ["-o"]}, "row 'x' has no examples: add examples.allowed"),
        ("-o", "row 'x' is '-o': expected a table"),
    ],
)
def test_a_bad_row_is_named(row: Any, message: str) -> None:
    """What breaks the schema is refused with the names of the row and of the key."""
    with pytest.raises(ProgramError) as raised:
        load_row("x", row)
    assert str(raised.value).startswith(f"{FILE}: {message}")
