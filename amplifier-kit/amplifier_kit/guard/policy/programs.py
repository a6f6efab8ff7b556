"""The table of programs, `programs.toml`: its schema and its loader. `docs/policy-programs.md` explains the keys.

Rows are found by their headers, and a row is read when its program is first used: to read the whole file would make
the first command of every process wait some 20 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

FILE: Final = "programs.toml"
#: How a program runs what its words name; `wrappers.py` takes each apart.
RUNS: Final = (
    "words", "options", "find", "xargs", "shell", "posix shell", "other shell", "script", "first script",
    "name or command",
)  # fmt: skip
#: How a program starts another one whose options count as if it had been started alone.
STARTS: Final = ("module", "run")
#: What a builtin changes for the commands after it.
CHANGES: Final = ("shell", "folder")
#: Analysers of small languages; `scripts.py` has them.
SCRIPTS: Final = ("awk", "sed", "printf")

_HEADER: Final = re.compile(
    r'^\[programs\.(?:"([^"\n]+)"|([\w-]+))\]\n(?:aliases = (\[[^\]]*\])\n)?(?:pattern = \'([^\'\n]*)\'\n)?',
    re.MULTILINE,
)


class ProgramError(ValueError):
    """A row of the table that breaks the schema; the message names the row and the key."""

    code = "policy.programs"


@dataclass(frozen=True)
class Value:
    """Options whose value must match `harmless`; `before` are the letters that may stand before theirs in a cluster."""

    options: tuple[str, ...]
    harmless: re.Pattern[str]
    letters: re.Pattern[str] | None


@dataclass(frozen=True)
class Given:
    """Words that are hazardous where some option is given as well."""

    option: re.Pattern[str]
    words: re.Pattern[str]


@dataclass(frozen=True)
class Settings:
    """`NAME=value` words: names that decide what runs, and values that are plain."""

    decides: re.Pattern[str]
    harmless: re.Pattern[str]


@dataclass(frozen=True)
class Examples:
    """Lines that the tests judge: understood, not understood, or denied because of what they run."""

    allowed: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """One row: what is known of a program, or of one of its commands. Every field is a key of the table."""

    name: str
    aliases: tuple[str, ...] = ()
    pattern: str = ""
    examples: Examples = field(default_factory=Examples)
    # Words with which it runs or writes what the caller chooses.
    options: tuple[str, ...] = ()
    harmless_options: tuple[str, ...] = ()
    any_dash_options: tuple[str, ...] = ()
    valued_options: tuple[str, ...] = ()
    dashless_options: bool = False
    words: re.Pattern[str] | None = None
    values: tuple[Value, ...] = ()
    given: tuple[Given, ...] = ()
    settings: Settings | None = None
    output_operand: bool = False
    after_dashes: str = ""
    script: str = ""
    # Its commands.
    commands: Mapping[str, Program] = field(default_factory=lambda: MappingProxyType({}))
    global_options: tuple[str, ...] = ()
    hazardous_commands: frozenset[str] = frozenset()
    stops_at: tuple[str, ...] = ()
    first_words: tuple[str, ...] = ()
    first_word_alone: re.Pattern[str] | None = None
    ignored_words: tuple[str, ...] = ()
    # What it runs.
    runs: str = ""
    starts: str = ""
    flags: str = ""
    valued: str = ""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    assigns: re.Pattern[str] | None = None
    operands: int = 0
    transparent: bool = False
    # What it does to the shell, and where it looks.
    changes: str = ""
    unless: re.Pattern[str] | None = None
    only_looks: bool = False
    follows_repository: bool = False
    contacts: bool = False
    contacts_after: tuple[str, ...] = ()
    contact_valued: str = ""
    contact_valued_options: tuple[str, ...] = ()

    @property
    def has_word_rules(self) -> bool:
        """Whether words that are known only at run time may be hazardous: all but a script alone is."""
        return bool(
            self.options or self.words or self.values or self.any_dash_options or self.output_operand or self.commands
        )


@lru_cache(maxsize=4096)
def program_row(name: str) -> Program | None:
    """Return the row of a program by its name, without a folder; None when the table has none.

    Raises:
        ProgramError: When the row breaks the schema.
    """
    blocks, patterns = _index()
    block = blocks.get(name) or next((text for pattern, text in patterns if pattern.fullmatch(name)), None)
    return None if block is None else _load_block(block)


@cache
def folder_builtins() -> tuple[str, ...]:
    """Return the names of the builtins after which the shell is in another folder."""
    row = program_row("cd")
    return () if row is None else (row.name, *row.aliases)


def every_program() -> Iterator[Program]:
    """Yield all rows, in the order of the file. Raises ProgramError as `program_row` does."""
    yield from map(_load_block, dict.fromkeys(_blocks()))


def is_hazardous_variable(name: str) -> bool:
    """Return whether a variable of that name may change which program runs or what it loads."""
    return _variables().fullmatch(name) is not None


def variable_examples() -> Examples:
    """Return the examples of the table of variables."""
    return _examples(_variable_table().get("examples", {}), "variables")


def load_row(name: str, row: object, *, is_command: bool = False) -> Program:
    """Return a row of the table.

    Raises:
        ProgramError: When a key is unknown or has a value of another kind, or when it has no examples.
    """
    if not isinstance(row, Mapping):
        raise ProgramError(f"{FILE}: row {name!r} is {row!r}: expected a table")
    known = _COMMAND_KEYS if is_command else _PROGRAM_KEYS
    values: dict[str, Any] = {}
    for key, value in row.items():
        if key not in known:
            from difflib import get_close_matches

            close = get_close_matches(key, known, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ProgramError(f"{FILE}: row {name!r}: unknown key {key!r}{hint}")
        values[key] = known[key](value, f"{name}.{key}")
    program = Program(name, **values)
    if not any((program.examples.allowed, program.examples.asked, program.examples.refused)):
        raise ProgramError(f"{FILE}: row {name!r} has no examples: add examples.allowed, .asked or .refused")
    return program


@cache
def _text() -> str:
    return Path(__file__).with_name(FILE).read_text(encoding="utf-8")


@cache
def _blocks() -> tuple[str, ...]:
    starts = [found.start() for found in _HEADER.finditer(_text())]
    return tuple(_text()[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True))


@cache
def _index() -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """Return the text of each row by all of its names, and of those with a pattern of names."""
    names: dict[str, str] = {}
    patterns: list[tuple[re.Pattern[str], str]] = []
    for block in _blocks():
        found = _HEADER.match(block)
        assert found is not None, "a block starts with its header"
        aliases = re.sub(r",\s*\]", "]", found[3] or "[]")
        for name in (found[1] or found[2], *json.loads(aliases)):
            names[name] = block
        if found[4]:
            patterns.append((re.compile(found[4], re.ASCII), block))
    return names, patterns


@cache
def _load_block(block: str) -> Program:
    import tomllib

    ((name, row),) = tomllib.loads(block)["programs"].items()
    return load_row(name, row)


@cache
def _variable_table() -> Mapping[str, Any]:
    import tomllib

    start = _text().index("[variables]")
    table: Mapping[str, Any] = tomllib.loads(_text()[start : _text().index("[programs.", start)])["variables"]
    return table


@cache
def _variables() -> re.Pattern[str]:
    names, prefixes, suffixes = (
        "|".join(map(re.escape, _texts(_variable_table().get(key), f"variables.{key}")))
        for key in ("names", "prefixes", "suffixes")
    )
    return re.compile(rf"{names}|({prefixes})\w*|\w*({suffixes})", re.ASCII)


# --- values of keys ---


def _expected(where: str, value: object, what: str) -> ProgramError:
    row, _, key = where.rpartition(".")
    return ProgramError(f"{FILE}: row {row!r}: {key} is {value!r}: expected {what}")


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) and text for text in value):
        raise _expected(where, value, "a list of texts")
    return tuple(value)


def _names(value: object, where: str) -> frozenset[str]:
    return frozenset(_texts(value, where))


def _one_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _expected(where, value, "a text")
    return value


def _one_of(choices: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, where: str) -> str:
        if value not in choices:
            raise _expected(where, value, f"one of {', '.join(choices)}")
        return str(value)

    return read


def _true(value: object, where: str) -> bool:
    if value is not True:
        raise _expected(where, value, "true, or no such key")
    return True


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _expected(where, value, "a number above 0")
    return value


def _compile(text: str, where: str, flags: re.RegexFlag) -> re.Pattern[str]:
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise _expected(where, text, f"a regular expression: {error}") from error


def _hazard_pattern(value: object, where: str) -> re.Pattern[str]:
    """Compile what is hazardous: letters of any alphabet and line breaks count."""
    return _compile("|".join(f"(?:{text})" for text in _texts(value, where)), where, re.DOTALL)


def _harmless_pattern(value: object, where: str) -> re.Pattern[str]:
    return _compile(_one_text(value, where), where, re.ASCII | re.DOTALL)


def _fields(value: object, where: str, *names: str) -> list[object]:
    if not isinstance(value, Mapping) or not value.keys() <= set(names):
        raise _expected(where, value, f"a table with {', '.join(names)}")
    return [value.get(name) for name in names]


def _tables(value: object, where: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise _expected(where, value, "a list of tables")
    return value


def _values(value: object, where: str) -> tuple[Value, ...]:
    found: list[Value] = []
    for table in _tables(value, where):
        options, before, harmless = _fields(table, where, "options", "before", "harmless")
        names = _texts(options, where)
        letters = "".join(re.escape(name[1]) for name in names if len(name) == 2)
        cluster = f"(?:{_one_text(before, where)})*?" if before is not None else ""
        pattern = _compile(f"-(?!-){cluster}[{letters}](.*)", where, re.DOTALL) if letters else None
        found.append(Value(names, _harmless_pattern(harmless, where), pattern))
    return tuple(found)


def _given(value: object, where: str) -> tuple[Given, ...]:
    found: list[Given] = []
    for table in _tables(value, where):
        option, words = _fields(table, where, "option", "words")
        found.append(Given(_hazard_pattern([option], where), _hazard_pattern(words, where)))
    return tuple(found)


def _settings(value: object, where: str) -> Settings:
    decides, harmless = _fields(value, where, "decides", "harmless")
    return Settings(_hazard_pattern([decides], where), _harmless_pattern(harmless, where))


def _examples(value: object, where: str) -> Examples:
    found = _fields(value, where, "allowed", "asked", "refused")
    return Examples(*(() if lines is None else _texts(lines, where) for lines in found))


def _commands(value: object, where: str) -> Mapping[str, Program]:
    if not isinstance(value, Mapping) or not value:
        raise _expected(where, value, "a table of commands")
    program = where.partition(".commands")[0]
    return MappingProxyType({name: load_row(f"{program} {name}", row, is_command=True) for name, row in value.items()})


_COMMAND_KEYS: Final[dict[str, Callable[[object, str], object]]] = {
    "examples": _examples,
    "options": _texts,
    "words": _hazard_pattern,
    "values": _values,
    "stops_at": _texts,
    "first_words": _texts,
    "first_word_alone": _harmless_pattern,
    "ignored_words": _texts,
    "only_looks": _true,
    "contacts": _true,
    "contacts_after": _texts,
    "contact_valued": _one_text,
}
_PROGRAM_KEYS: Final[dict[str, Callable[[object, str], object]]] = {
    "aliases": _texts,
    "pattern": _one_text,
    "examples": _examples,
    "options": _texts,
    "harmless_options": _texts,
    "any_dash_options": _texts,
    "valued_options": _texts,
    "dashless_options": _true,
    "words": _hazard_pattern,
    "values": _values,
    "given": _given,
    "settings": _settings,
    "output_operand": _true,
    "after_dashes": _one_text,
    "script": _one_of(SCRIPTS),
    "commands": _commands,
    "global_options": _texts,
    "hazardous_commands": _names,
    "runs": _one_of(RUNS),
    "starts": _one_of(STARTS),
    "flags": _one_text,
    "valued": _one_text,
    "long_flags": _names,
    "long_valued": _names,
    "assigns": _harmless_pattern,
    "operands": _count,
    "transparent": _true,
    "changes": _one_of(CHANGES),
    "unless": _harmless_pattern,
    "only_looks": _true,
    "follows_repository": _true,
    "contact_valued_options": _texts,
}
assert {*_COMMAND_KEYS, *_PROGRAM_KEYS} <= {each.name for each in fields(Program)}
