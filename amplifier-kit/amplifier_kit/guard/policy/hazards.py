"""Words that make a harmless program run or write something else: options from the table of programs, and scripts.

The small languages that rows of the table name, awk and sed, are analysed here: most of their scripts only show or
change text, some run commands or write files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.policy.programs import Command, Program, Value, is_hazardous_variable, program_row
from amplifier_kit.guard.policy.segments import HOLE, shortened

_SETTING: Final = re.compile(r"([^=\s]+?)[:+?!]*=(.*)", re.DOTALL)
#: Longer chains of programs that start programs have no use.
_MAX_STARTED: Final = 5


def hazardous_word(words: tuple[str, ...]) -> str | None:
    """Return the word with which a command runs or writes something of the caller's choice, if it has one."""
    for each in started(words):
        program = program_row(each[0].rpartition("/")[2]) if each else None
        if program is not None and (found := _hazard_of(program, each[1:])) is not None:
            return found
    return None


def started(words: tuple[str, ...], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command, and of every program that it may start by them: `python -m`, `uv run`.

    Which options of a runner have a value is not always known. The word after one may be that or the program: both are
    yielded.
    """
    yield words
    program = program_row(words[0].rpartition("/")[2]) if words else None
    if program is None or depth >= _MAX_STARTED:
        return
    if program.starts == "module" and (module := _module(words[1:], program)):
        yield from started(module, depth + 1)
    elif program.starts == "run":
        for each in _run(words[1:]):
            yield from started(each, depth + 1)


def _module(words: tuple[str, ...], program: Program) -> tuple[str, ...]:
    """Return the words from the module on that python runs; none when it runs something else."""
    at = 0
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word.startswith("--"):
            at += word[2:] in program.long_valued
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter == "m":
                rest = words[at:]
                return (word[place:], *rest) if word[place:] else rest
            if letter == "c":
                return ()
            if letter in program.valued:
                at += not word[place:]
                break
    return ()


def _run(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words from each that may be the program after `run`, with any options before and after `run`."""
    places = [place for place, word in enumerate(words) if word == "run"]
    if not places or not _are_options(words[: places[0]]):
        return
    rest = words[places[0] + 1 :]
    for at, word in enumerate(rest):
        if word in ("-m", "--module"):
            yield rest[at + 1 :]
            return
        if word.startswith("-"):
            continue
        if HOLE in word:
            return
        # hatch has the environment before the program, as in `test:pytest`
        yield (word.rpartition(":")[2], *rest[at + 1 :])
        if not at or not rest[at - 1].startswith("-") or "=" in rest[at - 1] or rest[at - 1] == "--":
            return


def _are_options(words: tuple[str, ...]) -> bool:
    """Return whether words may all be options, each perhaps with a value."""
    return all(word.startswith("-") or (at and words[at - 1].startswith("-")) for at, word in enumerate(words))


def _hazard_of(program: Program, words: tuple[str, ...]) -> str | None:
    if program.script == "awk" and (found := hazardous_awk(words)) is not None:
        return found
    if program.script == "sed" and (found := hazardous_sed(words)) is not None:
        return found
    if not program.has_word_rules:
        return None  # for awk, a word filled in after its program is a file
    rows: list[Command] = [program]
    if program.global_options:
        name, found = _command_of(words, program.global_options)
        if found is not None or name is None:
            return found
        # With a slash, the name leads to a program of a folder that is called `git-…`.
        if name in program.hazardous_commands or "/" in name or HOLE in name:
            return _shown(name)
        command = program.commands.get(name)
        if command is not None and command.first_words and _writes(command, words[words.index(name) + 1 :]):
            return name
    else:
        name = next((word for word in words if not word.startswith("-")), "")
        command = program.commands.get(name) or program.commands.get("*")
    rows += [command] if command is not None else []
    if program.dashless_options and words:
        words = (f"-{words[0].removeprefix('-')}", *words[1:])  # the first word is options, with or without a dash
    if found := next(filter(None, (_hazard_in(row, words) for row in rows)), None):
        return found
    known = tuple(option for row in rows for option in row.options)
    # A `--` ends nothing here: it may be the value of the option before it.
    looked_at = (word for word in words if word not in program.harmless_options)
    return next((_shown(word) for word in looked_at if word.startswith(HOLE) or _is_one_of(word, known)), None)


def _hazard_in(row: Command, words: tuple[str, ...]) -> str | None:
    """Return the first word that breaks a rule of a row, apart from its options."""
    has_rules = row.words or row.values or row.any_dash_options or row.settings
    for index, word in enumerate(words) if has_rules else ():
        if word in row.stops_at:
            break
        if row.words is not None and row.words.fullmatch(word):
            return _shown(word)
        following = words[index + 1] if index + 1 < len(words) else ""
        if any(_has_other_value(value, word, following) for value in row.values):
            return _shown(word)
        if row.any_dash_options and _shortens_any_dash(word, row.any_dash_options):
            return _shown(word)
        if row.settings is not None and not word.startswith("-") and (found := _SETTING.fullmatch(word)):
            # A setting is also put into the environment of every command.
            decides = row.settings.decides.fullmatch(found[1]) or is_hazardous_variable(found[1])
            if decides or not row.settings.harmless.fullmatch(found[2]):
                return _shown(word)
    for given in row.given:
        if any(map(given.option.fullmatch, words)) and (odd := next(filter(given.words.fullmatch, words), None)):
            return _shown(odd)
    if row.output_operand and (output := _second_operand(words, row.valued_options)) is not None:
        return _shown(output)
    if row.after_dashes and "--" in words and (builder := program_row(row.after_dashes)) is not None:
        return _hazard_of(builder, words[words.index("--") + 1 :])
    return None


def _has_other_value(value: Value, word: str, following: str) -> bool:
    """Return whether a word is one of these options, with a value that is not known to be harmless."""
    if word.startswith("--"):
        name, equals, given = word.partition("=")
        is_known = any(option.startswith(name) for option in value.options) if name != "--" else name in value.options
        if not is_known:
            return False
        return not value.harmless.fullmatch(given if equals else following)
    found = value.cluster.fullmatch(word) if value.cluster is not None else None
    return found is not None and not value.harmless.fullmatch(found[1] or following)


def _shortens_any_dash(word: str, options: tuple[str, ...]) -> bool:
    name = word.partition("=")[0].lstrip("-")
    return word.startswith("-") and len(name) > 2 and any(option.startswith(name) for option in options)


def _second_operand(words: tuple[str, ...], valued: tuple[str, ...]) -> str | None:
    """Return the second file that a program is given, which it writes to."""
    if "--" in words:
        return "--"  # a file's name after it may look like an option
    operands: list[str] = []
    for at, word in enumerate(words):
        is_option = re.match(r"-.|\+[0-9]", word) is not None
        # After the first file, what looks like an option may be the second.
        if not (at and words[at - 1] in valued) and (operands or not is_option):
            operands.append(word)
    return operands[1] if len(operands) > 1 else None


def _command_of(words: tuple[str, ...], hazardous: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return the command among a program's words, and the option before it that makes it run or read something else."""
    for word in words:
        if not word.startswith(("-", HOLE)):
            return word, None
        if HOLE in word or word.startswith(hazardous):
            return None, _shown(word)
    return None, None


def _writes(command: Command, words: tuple[str, ...]) -> bool:
    """Return whether a command that only reads with certain first words may do something else."""
    given = [word for word in words if word not in command.ignored_words]
    if not given or any(HOLE in word for word in given):
        return True
    options = [word for word in given[1:] if word.startswith("-")]
    alone = command.first_word_alone
    is_alone = len(given) == 1 and alone is not None and alone.fullmatch(given[0]) is not None
    return bool(options) or not (given[0] in command.first_words or is_alone)


def _shown(word: str) -> str:
    """Return a word for a message, never empty; without the value of an option or setting, which may be a secret."""
    return shortened(word.partition("=")[0] or word)


def _is_one_of(word: str, known: tuple[str, ...]) -> bool:
    if not word.startswith("-"):
        return word in known or (word.startswith("@") and "@" in known)
    if word in ("-", "--"):
        return False
    name = word.partition("=")[0]
    if HOLE in name:  # it may be any option
        return True
    if name.startswith("--"):
        return any(option.startswith(name) for option in known)
    # One or two letters may stand in a cluster, or have a value behind them; a find-like option stands alone.
    return any(option == name or (len(option) <= 3 and option[1:] in name[1:]) for option in known)


# --- scripts ---

#: Longer scripts are not analysed.
_LONGEST: Final = 2_000

#: Runs a command, writes a file, opens a connection or loads something. `||` and `>=` do none of it.
_AWK_HAZARD: Final = re.compile(r"system|getline|[|>@]|\\\n|/inet")
_AWK_VALUED: Final = ("-F", "-v")


def hazardous_awk(words: tuple[str, ...]) -> str | None:
    """Return the word after `awk` that may run a command or write a file, if there is one.

    Only -F, -v and a program on the line itself are harmless; a comparison by `>` looks like a redirect.
    """
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        if not words[at].startswith(_AWK_VALUED):
            return _shown(words[at])
        at += 2 if words[at] in _AWK_VALUED else 1
    if any(HOLE in word for word in words[: at + 1]):
        return "…"
    at += words[at : at + 1] == ("--",)
    program, *files = words[at:] or ("",)
    if len(program) > _LONGEST or HOLE in program or _AWK_HAZARD.search(program.replace("||", " ").replace(">=", " ")):
        return shortened(program)
    return next((shortened(file) for file in files if "/inet" in file), None)


_PATTERN: Final = r"/(?:[^/\\\n]|\\.)*/[IM]*"
_ADDRESS: Final = rf"(?:(?:[0-9]+(?:~[0-9]+)?|\$|{_PATTERN})(?:,\s*(?:[+~]?[0-9]+|\$|{_PATTERN}))?\s*!?\s*)?"
#: `s` and `y`: any text between the same three marks, with a mark in it only behind a backslash.
_EXCHANGE: Final = r"[sy](?P<mark>[^\w\s\\;])(?:(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)){2}[gpIiMm0-9]*"
_LETTER: Final = r"(?:[pPdDnNhHgGxz=l]|[qQ][0-9]*)"
#: One command that neither runs nor writes anything, with what ends it.
_SED_COMMAND: Final = re.compile(
    rf"\s*(?:{_ADDRESS}(?:{_EXCHANGE}|{_LETTER}|\{{)\s*|\}}\s*)(?:[;\n]+|(?<=\{{)|(?=\}})|$)"
)


def hazardous_sed(words: tuple[str, ...]) -> str | None:
    """Return the word after `sed` that may run a command or write a file, if there is one.

    Only scripts of a few well-known commands are harmless. Options are not judged here.
    """
    scripts: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 1
        if word == "--":
            operands += words[at:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name.startswith("--l"):
                return name
            if name.startswith("--e"):
                scripts.append(value if equals else following)
                at += not equals
            continue
        letters, is_script, value = word.partition("e")
        if "l" in letters:
            return "-l"  # the next word is its value, also one that looks like a script, or not, as the system has it
        if is_script:
            scripts.append(value or following)
            at += not value
    scripts = scripts or operands[:1]
    return next((shortened(script) for script in scripts if not _is_harmless(script)), None)


def _is_harmless(script: str) -> bool:
    if HOLE in script or len(script) > _LONGEST:
        return False
    at = 0
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


#: Writes the number of characters printed so far into a variable.
_COUNTS: Final = re.compile(r"%[^a-zA-Z%]*[hjlLqtz]*n")


def printf_sets_variable(words: tuple[str, ...]) -> bool:
    """Return whether the words after `printf` set a variable: with -v, or by a %n in its format."""
    if any(word.startswith(("-v", HOLE)) or (word.startswith("-") and HOLE in word) for word in words[:1]):
        return True
    at = int(words[:1] == ("--",))
    shown = "".join(words[at : at + 1]).replace("%%", "")
    has_values = len(words) > at + 1
    return has_values and (HOLE in shown or _COUNTS.search(shown) is not None)
