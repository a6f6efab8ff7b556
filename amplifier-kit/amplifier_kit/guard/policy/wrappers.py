"""Programs that run other programs, and the commands in their words."""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.policy.hazards import printf_sets_variable
from amplifier_kit.guard.policy.programs import Program, is_hazardous_variable, program_row
from amplifier_kit.guard.policy.segments import HOLE
from amplifier_kit.named_tuple import NamedTuple


class Wrapped(NamedTuple):
    """The commands that a wrapper runs: words, or scripts in the shell's language.

    With `is_transparent` the wrapper adds nothing: only the commands in it are judged. With a `reason` it could not be
    taken apart; then any word after it may be a program. `assignments` are variables that the shell sets for those
    commands, not the wrapper. With `is_bash` false the scripts are for a shell that knows less than bash.
    """

    words: tuple[tuple[str, ...], ...] = ()
    scripts: tuple[str, ...] = ()
    is_transparent: bool = False
    reason: str = ""
    assignments: tuple[str, ...] = ()
    is_bash: bool = True


#: Keywords after which a command starts as anywhere.
_KEYWORDS: Final = ("!", "time")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SHELL_LONG: Final = ("--login", "--noprofile", "--norc", "--posix", "--noediting")
#: No program takes variables with such names for settings.
PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII)


def runs_others(program: str) -> bool:
    """Return whether a program runs a command somewhere in its words."""
    row = program_row(program.rpartition("/")[2])
    return row is not None and row.runs == "words"


def changes_shell(words: tuple[str, ...]) -> bool:
    """Return whether a command changes what the commands after it mean."""
    row = program_row(words[0])
    if row is None or row.changes != "shell":
        return False
    if row.script == "printf":
        return printf_sets_variable(words[1:])
    return row.unless is None or not all(map(row.unless.fullmatch, words[1:]))


def changes_folder(program: str) -> bool:
    """Return whether the shell is in another folder after a command."""
    row = program_row(program)
    return row is not None and row.changes == "folder"


def unwrap(words: tuple[str, ...]) -> Wrapped | None:
    """Return the commands that a command runs; None when it is not a wrapper. The first word is a known name."""
    row = program_row(words[0].rpartition("/")[2].casefold())
    if row is None:
        return None
    match row.runs:
        case "shell" | "posix shell" | "other shell":
            return _shell(row, words)
        case "script" | "first script":
            return _script(row, words)
        case "name or command":
            return Wrapped(reason=f"`{row.name}` takes a name or a command")
        case "find":
            return _find(words)
        case "xargs":
            return _xargs(row, words)
        case "options":
            return _wrapper(row, words)
        case _:
            return None


def _wrapper(row: Program, words: tuple[str, ...]) -> Wrapped:
    name = row.name
    if name == "command" and len(words) > 1 and words[1] in ("-v", "-V", "-pv", "-pV"):
        return Wrapped()
    start = _program_at(words, row)
    if start is None:
        return Wrapped(reason=f"`{name}` with options that are not known here")
    first, is_keyword = start, name in _KEYWORDS and "/" not in words[0]
    while is_keyword and start < len(words) and ASSIGNMENT.match(words[start]):
        start += 1
    if start >= len(words):
        return Wrapped()
    set_here = [word.partition("=")[0].rstrip("+") for word in words[1:start] if "=" in word and word[0] != "-"]
    if name == "env":
        set_here += _unset(words[1:start])
    # A name that is not valid for a shell variable is meant for some program, which may use it for anything.
    if hazardous := [each for each in set_here if is_hazardous_variable(each) or not _NAME.fullmatch(each)]:
        return Wrapped(words=(words[start:],), reason=f"{hazardous[0]!r} may decide what runs")
    # A path may be another program of that name.
    is_transparent = row.transparent and "/" not in words[0]
    return Wrapped(words=(words[start:],), is_transparent=is_transparent, assignments=words[first:start])


def _unset(options: tuple[str, ...]) -> list[str]:
    """Return variables that options of `env` remove; without PATH a shell may look in the working directory."""
    found: list[str] = []
    for at, word in enumerate(options):
        name, equals, value = word.partition("=")
        letters, is_unset, rest = word[1:].partition("u") if not word.startswith("--") else ("", "", "")
        if word == "-" or name == "--ignore-environment" or "i" in letters:
            found.append("PATH")
        if is_unset or name == "--unset":
            following = options[at + 1] if at + 1 < len(options) else ""
            found.append((value if equals else following) if name == "--unset" else rest or following)
    return found


def _program_at(words: tuple[str, ...], options: Program) -> int | None:
    """Return the index of the program that a wrapper runs, or None when an option is not known."""
    at = 1
    while at < len(words) and words[at].startswith(("-", HOLE)) and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        taken = _option_length(words[at], options)
        if taken is None:
            return None
        at += taken
    if options.assigns is not None:
        at += words[at : at + 1] == ("-",)
        while at < len(words) and options.assigns.match(words[at]):
            at += 1
    at += options.operands
    # A word filled in there may be several: then another one is the program.
    return None if any(HOLE in word for word in words[1:at]) else at


def _option_length(word: str, options: Program) -> int | None:
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        if name in options.long_flags:
            return 1
        return (1 if equals else 2) if name in options.long_valued else None
    for index, letter in enumerate(word[1:], start=1):
        if letter in options.valued:
            return 1 if index < len(word) - 1 else 2
        if letter not in options.flags:
            return None
    return 1


def _xargs(row: Program, words: tuple[str, ...]) -> Wrapped:
    start = _program_at(words, row)
    if start is None or start > len(words):
        return Wrapped(reason="`xargs` with options that are not known here")
    inner = list(words[start:])
    for index, word in enumerate(words[1:start], start=1):
        # The value of another option may look like it: then less is known than could be, which allows nothing.
        if found := re.match(r"-[^-I]*I", word):
            mark = word[found.end() :] or "".join(words[index + 1 : index + 2])
            if not mark:
                return Wrapped(reason="`xargs` with an option that has no value")
            inner = [part.replace(mark, HOLE) for part in inner]
    # Without anything to read, it runs the words as they stand.
    return Wrapped(words=(tuple(inner), (*inner, HOLE))) if inner else Wrapped()


def _find(words: tuple[str, ...]) -> Wrapped | None:
    found: list[tuple[str, ...]] = []
    at = 1
    while at < len(words):
        if words[at].startswith(HOLE) or (words[at].startswith("-") and HOLE in words[at]):
            return Wrapped(reason="`find` with a test that is known only when it runs")
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            # A plus behind anything but {} is an argument.
            ends = (
                end for end in range(at + 1, len(words)) if words[end] == ";" or words[end - 1 : end + 1] == ("{}", "+")
            )
            end = next(ends, None)
            if end is None or end == at + 1:
                return Wrapped(reason="`find` with an action that does not end")
            found.append(tuple(word.replace("{}", HOLE) for word in words[at + 1 : end]))
            at = end
        at += 1
    reason = "`find` runs it in other folders" if {"-execdir", "-okdir"} & {*words} else ""
    return Wrapped(words=tuple(found), reason=reason) if found else None


def _shell(row: Program, words: tuple[str, ...]) -> Wrapped | None:
    """A shell: the text after -c, or a script's file, or its input."""
    name = words[0].rpartition("/")[2].casefold()
    is_script = False
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] not in ("-", "--"):
        word = words[at]
        if word.startswith("--") and word not in _SHELL_LONG:
            return Wrapped(reason=f"`{name}` with options that are not known here")
        if not word.startswith("--"):
            if set(word[1:]) - set("ceuxlopfhmvnO"):
                return Wrapped(reason=f"`{name}` with options that are not known here")
            if word.startswith("+") and set(word) & set("no"):  # after `-n` the script is still run
                return Wrapped(reason=f"`{name}` with options that are switched off")
            is_script = is_script or "c" in word
            at += sum(letter in "oO" for letter in word[1:])
        at += 1
    at += words[at : at + 1] in (("-",), ("--",))
    if any(HOLE in word for word in words[1:at]):
        return Wrapped(reason=f"`{name}` with options that are known only when it runs")
    if at >= len(words):
        return Wrapped(reason=f"`{name}` runs its input")
    if not is_script:
        return None if HOLE not in words[at] else Wrapped(reason=f"`{name}` runs a file known only when it runs")
    if HOLE in words[at]:
        return Wrapped(reason=f"`{name} -c` of a text that is known only when it runs")
    reason = f"the language of `{name}` is not known here" if row.runs == "other shell" else ""
    return Wrapped(scripts=(words[at],), reason=reason, is_bash=row.runs != "posix shell")


def _script(row: Program, words: tuple[str, ...]) -> Wrapped:
    text = " ".join(words[1:2] if row.runs == "first script" else words[1:])
    if HOLE in text:
        return Wrapped(reason=f"`{row.name}` of a text that is known only when it runs")
    return Wrapped(scripts=(text,))
