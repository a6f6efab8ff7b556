"""Protect the files that decide what sessions may do and run: writing them needs approval each time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.paths import Home
from amplifier_kit.guard.control_files import IN_HOME, Use, git_folders_of, git_patterns, project_rows
from amplifier_kit.guard.policy.facts import KNOWN_TOOLS, Facts
from amplifier_kit.guard.policy.paths import escaped
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.guard.policy.segments import HOLE

_WRITE: Final = "filesystem.write"
_READ: Final = "filesystem.read"
_EXEC: Final = "process.exec"
#: The action of a call that names more files than can be checked.
_UNSEEN: Final = "filesystem.write.unseen"

_RULES: Final = (
    "this is where the rules are kept: whatever is written here changes what is asked for and what is denied"
)
_TRUST: Final = "this is where it is kept which projects are trusted"
_RUNS: Final = "what lies here decides what sessions run and with what"
_GIT: Final = "git runs what this file says, also when you work in the repository yourself"

#: Programs that write to files which their arguments name. The sandbox stops writes of others.
_WRITERS: Final = frozenset({
    "chmod", "chown", "cp", "dd", "ed", "install", "link", "ln", "mkdir", "mkfifo", "mv", "patch", "rm", "rmdir",
    "rsync", "sponge", "symlink", "tee", "touch", "truncate", "unlink",
})  # fmt: skip
#: Commands of git that write to files which their arguments name, those that make repositories, and options of any
#: command that name a file to write.
_GIT_MAKERS: Final = frozenset({"clone", "init", "submodule", "worktree"})
_GIT_WRITERS: Final = _GIT_MAKERS | {
    "archive", "bundle", "checkout-index", "credential-store", "format-patch", "index-pack", "interpret-trailers",
    "mailinfo", "mailsplit", "merge-file", "mv", "pack-objects", "rm",
}  # fmt: skip
_GIT_OUTPUT: Final = ("-o", "--out", "--export-", "--index-output", "--build-fake-ancestor", "--file")
#: How many different texts of a call are checked; a call with more needs approval. And how long a path can be.
_MOST_TEXTS: Final = 1_000
_LONGEST: Final = 4_096
_TOO_MANY: Final = (
    f"it is given more than {_MOST_TEXTS:,} texts: not each can be checked for a file that decides about sessions"
)
#: Folders that a command line changes to before something is written there.
_MOST_FOLDERS: Final = 8


class _TooManyTextsError(Exception):
    """A call has more texts than are checked."""


def guards(home: Home, project: Path, session: Path | None, control_files: Iterable[Path] = ()) -> tuple[Rule, ...]:
    """Return rules that ask for writing what decides about sessions of a project; no allowing rule overrides them.

    A folder of the home that contains the project itself is not among them: the work is done there. `control_files` are
    files and folders that the session was made of.
    """
    rules = [_asked(str(path), _RULES) for path in home.policy_files(project, session)]
    # An unknown tool may move or remove a folder as a whole.
    rules.append(_asked(str(home.path), _RULES))
    rules.append(_asked(str(home.trust), _TRUST))
    rules += [_asked(str(project), _RUNS, row.pattern) for row in project_rows(Use.POLICY)]
    rules += [_asked(str(path), _RUNS, "**") for path in control_files]
    here = Path(os.path.realpath(project))
    for row in IN_HOME:
        if not (row.is_tree and here.is_relative_to(os.path.realpath(home.path / row.path))):
            rules.append(_asked(str(home.path), _RUNS, row.pattern))
    # Wherever a repository lies: below the project, around it, or elsewhere with the project as its worktree.
    folders = ["/**/.git", *(escaped(path) for path in git_folders_of(str(project)))]
    for folder in dict.fromkeys(folders):
        rules += [_rule(folder, _GIT), *(_rule(f"{folder}/{pattern}", _GIT) for pattern in git_patterns())]
    rules.append(Rule("ask", action=_UNSEEN, reason=_TOO_MANY))
    return tuple(rules)


def as_writing(known: Facts, details: Mapping[str, Any], project: Path) -> Facts | None:
    """Return the files that an action may write, as writing them; None when it writes none.

    An unknown action may write every file that it names anywhere in its input.
    """
    named = () if known.action in (_READ, _EXEC) else known.paths
    written = dict.fromkeys([*named, *known.writes])
    spelled = {path for path in known.spelled if path not in {*known.reads, *known.paths} - set(written)}
    try:
        for text, base in _texts(known, details, project):
            _place(text, base, written, spelled)
    except _TooManyTextsError:
        return Facts(_UNSEEN, known.tool)
    if not written:
        return None
    return Facts(_WRITE, known.tool, paths=tuple(written), spelled=tuple(sorted(spelled)))


def _texts(known: Facts, details: Mapping[str, Any], project: Path) -> Iterator[tuple[str, Path]]:
    """Yield texts that may name a file which is written, each with the folder that it is relative to."""
    base = details.get("working_dir")
    folders = [project / base if isinstance(base, str | Path) and base else project]
    lines = [[word for word in segment.words or () if HOLE not in word] for segment in known.commands or ()]
    for words in lines:
        if len(words) > 1 and words[0] in ("cd", "pushd") and len(folders) < _MOST_FOLDERS:
            folders.append(folders[-1] / words[-1])
    for words in lines:
        if words and (operands := _written_by(words[0].rpartition("/")[2], words[1:])):
            named = [part for word in operands for part in (word, word.partition("=")[2]) if part]
            yield from ((text, folder) for text in named for folder in folders)
    # A file that is not known may be any of the folder that the line goes to.
    redirects = [each for segment in known.commands or () for each in segment.redirects if each.kind == "write"]
    if any(each.target is None for each in redirects):
        yield from ((".", folder) for folder in folders[1:])
    is_unknown = known.action.startswith(("tool.", "mcp.")) and known.tool not in KNOWN_TOOLS
    if is_unknown:
        yield from ((text, folders[0]) for text in _all_texts(details.get("tool_input")))


def _written_by(program: str, words: list[str]) -> list[str]:
    """Return the words of a command that may name what it writes."""
    if program != "git":
        return words if _is_writer(program, words) else []
    from amplifier_kit.guard.policy.repositories import git_command

    command, own = git_command(tuple(words))
    if command not in _GIT_WRITERS:
        options = [index for index, word in enumerate(own) if word.startswith(_GIT_OUTPUT)]
        behind = [own[index + 1] for index in options if "=" not in own[index] and index + 1 < len(own)]
        return [*behind, *(text for index in options for text in (own[index], own[index][2:]))]
    # Below the folder of a new repository, or in it, is its config.
    return [*own, *(f"{word}/config" for word in own if command in _GIT_MAKERS)]


def _is_writer(program: str, words: list[str]) -> bool:
    if program in ("sed", "gsed", "perl"):  # mostly they only show something
        return any(word.startswith(("-i", "--in-place")) or "i" in word[1:] for word in words if word.startswith("-"))
    return program in _WRITERS


def _all_texts(value: Any) -> Iterator[str]:
    """Yield the different texts in what a tool was given, keys included, however deep, without blanks around them.

    Those that cannot be a path are left out. Raises _TooManyTextsError.
    """
    waiting: list[Any] = [value]
    seen: set[str] = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        elif isinstance(each, str) and (text := each.strip()) not in seen:
            if not text or len(text) > _LONGEST or "\n" in text:
                continue
            seen.add(text)
            if len(seen) > _MOST_TEXTS:
                raise _TooManyTextsError
            yield text
            if text[:5].casefold() == "file:":
                yield _unquoted(text)


def _unquoted(uri: str) -> str:
    from urllib.parse import unquote, urlsplit

    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return unquote(uri[5:])


def _place(text: str, base: Path, written: dict[Path, None], spelled: set[Path]) -> None:
    from amplifier_kit.guard.policy.paths import PathError
    from amplifier_kit.guard.policy.paths import resolved as resolve
    from amplifier_kit.guard.policy.paths import spelled as spell

    try:
        path, as_written = resolve(text, base), spell(text, base)
    except (PathError, ValueError, OSError):
        return  # no path, or one that is refused as it is
    written[path] = None
    spelled.add(as_written)


def _asked(place: str, reason: str, pattern: str = "") -> Rule:
    return _rule("/".join(filter(None, (escaped(place), pattern))), reason)


def _rule(pattern: str, reason: str) -> Rule:
    return Rule("ask", action=_WRITE, path=pattern, reason=reason, is_exact=True)
