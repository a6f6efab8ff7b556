"""The table of programs, `programs.toml`: its schema and its loader. `docs/policy-programs.md` explains the keys.

Rows are found by their headers, and a row is parsed when its program is first used: to parse the whole file would
delay the first command of every process by some 20 ms. The tests check every row against the types here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")
FILE: Final = "programs.toml"
_HEADER: Final = re.compile(
    r'^\[programs\.(?:"([^"\n]+)"|([\w-]+))\]\n(?:aliases = (\[[^\]]*\])\n)?(?:pattern = \'([^\'\n]*)\'\n)?',
    re.MULTILINE,
)

# The types of keys. `_READERS` converts those that TOML does not have.
Texts: TypeAlias = tuple[str, ...]
Names: TypeAlias = frozenset[str]
#: Matches hazardous words: letters of any alphabet and line breaks count.
Hazard: TypeAlias = re.Pattern[str]
#: Matches harmless words: only ASCII letters and digits count as such.
Harmless: TypeAlias = re.Pattern[str]
#: How a program runs a command that its words name; `wrappers.py` takes each apart.
Runs: TypeAlias = Literal[
    "words", "options", "find", "xargs", "shell", "posix shell", "other shell", "script", "first script",
    "name or command",
]  # fmt: skip
#: How a program starts another one whose options count as if it had been started alone.
Starts: TypeAlias = Literal["module", "run"]
#: The effect of a builtin on the commands after it.
Changes: TypeAlias = Literal["shell", "folder"]
#: The operands that name a repository to contact; with paths, also later ones that are written as a path.
Contacts: TypeAlias = Literal["first", "all", "first and paths"]
#: Small languages; `hazards.py` analyses them.
Script: TypeAlias = Literal["awk", "sed", "printf"]


@dataclass(frozen=True)
class Examples:
    """Lines that the tests judge: understood, not understood, or denied because of a command inside."""

    allowed: Texts = ()
    asked: Texts = ()
    refused: Texts = ()


@dataclass(frozen=True)
class Value:
    """Options whose value must match `harmless`; `before` matches a letter that may precede theirs in a cluster."""

    options: Texts
    harmless: Harmless
    before: str = ""

    @cached_property
    def cluster(self) -> re.Pattern[str] | None:
        """Matches a cluster with one of the letters; its group is the value in the same word."""
        letters = "".join(re.escape(name[1]) for name in self.options if len(name) == 2)
        before = f"(?:{self.before})*?" if self.before else ""
        return re.compile(f"-(?!-){before}[{letters}](.*)", re.DOTALL) if letters else None


@dataclass(frozen=True)
class Given:
    """Words that are hazardous if some option is given as well."""

    option: Hazard
    words: Hazard


@dataclass(frozen=True)
class Settings:
    """`NAME=value` words: names that decide which program runs, and values that are plain."""

    decides: Hazard
    harmless: Harmless


@dataclass(frozen=True)
class Variables:
    """Environment variables that may change which program or library is loaded."""

    names: Texts
    prefixes: Texts
    suffixes: Texts
    examples: Examples

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches their names."""
        names, prefixes, suffixes = (
            "|".join(map(re.escape, each)) for each in (self.names, self.prefixes, self.suffixes)
        )
        return re.compile(rf"{names}|({prefixes})\w*|\w*({suffixes})", re.ASCII)


@dataclass(frozen=True)
class Command:
    """A command of a program, as `git rebase`. Every field is a key of the table."""

    name: str
    examples: Examples = field(default_factory=Examples)
    # Words with which it runs or writes something of the caller's choice.
    options: Texts = ()
    any_dash_options: Texts = ()
    valued_options: Texts = ()
    words: Hazard | None = None
    values: tuple[Value, ...] = ()
    given: tuple[Given, ...] = ()
    settings: Settings | None = None
    output_operand: bool = False
    after_dashes: str = ""
    stops_at: Texts = ()
    # The only words with which it just reads.
    first_words: Texts = ()
    first_word_alone: Harmless | None = None
    ignored_words: Texts = ()
    only_looks: bool = False
    # Which of its words name a repository that it contacts.
    contacts: Contacts | None = None
    contacts_after: Texts = ()
    contact_valued: str = ""


@dataclass(frozen=True)
class Program(Command):
    """A row: a program with its commands."""

    aliases: Texts = ()
    pattern: str = ""
    harmless_options: Texts = ()
    dashless_options: bool = False
    script: Script | None = None
    commands: Mapping[str, Command] = field(default_factory=lambda: MappingProxyType({}))
    global_options: Texts = ()
    hazardous_commands: Names = frozenset()
    # The command that it runs.
    runs: Runs | None = None
    starts: Starts | None = None
    flags: str = ""
    valued: str = ""
    long_flags: Names = frozenset()
    long_valued: Names = frozenset()
    assigns: Harmless | None = None
    operands: int = 0
    transparent: bool = False
    # Its effect on the shell, and on repositories.
    changes: Changes | None = None
    unless: Harmless | None = None
    follows_repository: bool = False
    contact_valued_options: Texts = ()

    @cached_property
    def has_word_rules(self) -> bool:
        """Whether words that are known only at run time may be hazardous; not for a script alone."""
        return bool(
            self.options or self.words or self.values or self.any_dash_options or self.output_operand or self.commands
        )


@lru_cache(maxsize=4096)
def program_row(name: str) -> Program | None:
    """Return the row of a program by its name, without a folder; None when the table has none."""
    blocks, patterns = _index()
    block = blocks.get(name) or next((text for pattern, text in patterns if pattern.fullmatch(name)), None)
    return None if block is None else _load_block(block)


def every_program() -> Iterator[Program]:
    """Yield all rows, in the order of the file."""
    yield from map(_load_block, dict.fromkeys(_index()[0].values()))


def is_hazardous_variable(name: str) -> bool:
    """Return whether a variable of that name may change which program or library is loaded."""
    return variables().pattern.fullmatch(name) is not None


@cache
def variables() -> Variables:
    """Return the table of variables."""
    import tomllib

    return _read(Variables, tomllib.loads(_text().partition("\n[programs.")[0])["variables"])


@cache
def folder_builtins() -> tuple[str, ...]:
    """Return the names of the builtins that change the working directory."""
    row = program_row("cd")
    return () if row is None else (row.name, *row.aliases)


def load_row(name: str, row: Mapping[str, object]) -> Program:
    """Return a row of the table; raises TypeError for an unknown key."""
    return _read(Program, {"name": name, **row})


@cache
def _text() -> str:
    return Path(__file__).with_name(FILE).read_text(encoding="utf-8")


@cache
def _index() -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """Return the text of each row by all of its names, and of those with a pattern of names."""
    names: dict[str, str] = {}
    patterns: list[tuple[re.Pattern[str], str]] = []
    headers = list(_HEADER.finditer(_text()))
    for found, following in zip(headers, [*headers[1:], None], strict=True):
        block = _text()[found.start() : None if following is None else following.start()]
        aliases = json.loads(re.sub(r",\s*\]", "]", found[3] or "[]"))
        names |= dict.fromkeys((found[1] or found[2], *aliases), block)
        if found[4]:
            patterns.append((re.compile(found[4], re.ASCII), block))
    return names, patterns


@cache
def _load_block(block: str) -> Program:
    import tomllib

    ((name, row),) = tomllib.loads(block)["programs"].items()
    return load_row(name, row)


def _read(kind: type[T], table: Any) -> T:
    """Return a table as an object, each key converted as its field's type says."""
    types = {each.name: str(each.type).removesuffix(" | None") for each in fields(kind)}  # type: ignore[arg-type]
    readers = {name: _READERS[of_type] for name, of_type in types.items() if of_type in _READERS}
    return kind(**{key: readers[key](value) if key in readers else value for key, value in table.items()})


def _hazard(value: Any) -> Hazard:
    texts = [value] if isinstance(value, str) else value
    return re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL)


def _commands(value: Any) -> Mapping[str, Command]:
    return MappingProxyType({name: _read(Command, {"name": name, **row}) for name, row in value.items()})


def _each(kind: type[T]) -> Callable[[Any], tuple[T, ...]]:
    return lambda value: tuple(_read(kind, row) for row in (value if isinstance(value, list) else [value]))


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "Texts": tuple,
    "Names": frozenset,
    "Hazard": _hazard,
    "Harmless": lambda value: re.compile(value, re.ASCII | re.DOTALL),
    "Examples": lambda value: _read(Examples, value),
    "Settings": lambda value: _read(Settings, value),
    "tuple[Value, ...]": _each(Value),
    "tuple[Given, ...]": _each(Given),
    "Mapping[str, Command]": _commands,
}
