"""The table of programs: every example of every row, the schema, and the quick search for rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest

from amplifier_kit.guard.policy import programs
from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.programs import (
    FILE,
    Command,
    Program,
    every_program,
    load_row,
    program_row,
    variables,
)
from amplifier_kit.guard.policy.rules import Rule, RuleSet

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


def _mistakes(kind: type, table: object, where: str) -> Iterator[str]:
    """Yield what is wrong with a table of the file, by the types of the fields."""
    if not isinstance(table, dict):
        yield f"{where}: expected a table"
        return
    types = {each.name: str(each.type).removesuffix(" | None") for each in fields(kind)}
    if kind in (Program, Command) and not table.get("examples"):
        yield f"{where}: no examples"
    for key, value in table.items():
        at = f"{where}.{key}"
        match types.get(key):
            case None:
                yield f"{at}: unknown key"
            case "Texts" | "Names":
                yield from [] if _are_texts(value) else [f"{at}: expected a list of texts"]
            case "Hazard":
                yield from [] if _are_texts(value) or isinstance(value, str) else [f"{at}: expected texts"]
            case "str" | "Harmless":
                yield from [] if isinstance(value, str) and value else [f"{at}: expected a text"]
            case "bool" | "int" as name:
                yield from [] if type(value).__name__ == name else [f"{at}: expected {name}"]
            case "Mapping[str, Command]":
                for name, row in value.items():
                    yield from _mistakes(Command, row, f"{at}.{name}")
            case "Examples" | "Settings" | "tuple[Value, ...]" | "tuple[Given, ...]" as name:
                inner = getattr(programs, re.sub(r"tuple\[(\w+), \.\.\.\]", r"\1", name))
                for row in value if isinstance(value, list) else [value]:
                    yield from _mistakes(inner, row, at)
            case name:
                choices = get_args(getattr(programs, name))
                yield from [] if value in choices else [f"{at}: expected one of {', '.join(choices)}"]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) and text for text in value)


def test_every_row_is_as_the_schema_says() -> None:
    """Every key of the file is known and has a value of its kind, and every row has examples."""
    found = list(_mistakes(programs.Variables, TABLE["variables"], "variables"))
    for name, row in TABLE["programs"].items():
        found += _mistakes(Program, row, name)
    assert found == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"optoins": ["-o"]}, "x.optoins: unknown key"),
        ({"options": "-o"}, "x.options: expected a list of texts"),
        ({"runs": "anything"}, "x.runs: expected one of words, options"),
        ({"transparent": 1}, "x.transparent: expected bool"),
        ({"operands": "1"}, "x.operands: expected int"),
        ({"values": [{"option": "-f"}]}, "x.values.option: unknown key"),
        ({"commands": {"y": {"runs": "words"}}}, "x.commands.y: no examples"),
        ({"options": ["-o"]}, "x: no examples"),
        ("-o", "x: expected a table"),
    ],
)
def test_a_bad_row_is_named(row: object, message: str) -> None:
    """The check of the schema above finds what is wrong."""
    assert any(mistake.startswith(message) for mistake in _mistakes(Program, row, "x"))
