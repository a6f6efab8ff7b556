"""Decide whether an action provably only reads: it writes no file, starts no unknown program and changes no state.

Unknown means no: an unknown program, an option that may write, a word that is known only when the line runs, a variable
for one command, a wrapper that is not transparent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from amplifier_kit.guard.policy.facts import Facts
from amplifier_kit.guard.policy.programs import program_row
from amplifier_kit.guard.policy.repositories import git_command
from amplifier_kit.guard.policy.segments import HOLE, Segment

#: Actions that only read files.
_READ: Final = "filesystem.read"
_EXEC: Final = "process.exec"
#: Actions that change nothing by themselves: what a child session does is judged again, a fetch sends no file, and the
#: tools keep a list of their own, show the text of a skill or the states of recipes, and look after commands that run
#: already.
_HARMLESS: Final = frozenset({
    "network.fetch", "session.spawn", "tool.todo", "tool.load_skill", "tool.bash_job", "tool.recipes_read",
})  # fmt: skip

#: Programs that write nothing, apart from the words that `programs.toml` knows as hazards.
_READERS: Final = frozenset({
    "[", "[[", "ag", "awk", "basename", "cat", "cd", "cmp", "column", "comm", "cut", "date", "df", "diff",
    "dirname", "du", "echo", "egrep", "expand", "expr", "false", "fd", "fgrep", "file", "find", "fmt", "fold", "gawk",
    "grep", "head", "hexdump", "id", "join", "jq", "ls", "md5sum", "nl", "nproc", "od", "paste", "popd", "printf",
    "ps", "pushd", "pwd", "readlink", "realpath", "rev", "rg", "sed", "seq", "sha1sum", "sha256sum", "sort", "stat",
    "strings", "tac", "tail", "test", "tr", "tree", "true", "type", "uname", "uniq", "wc", "which", "whoami", "xxd",
})  # fmt: skip
#: Words with which `date` shows the time: any other one may set the clock, and then without any option.
_SHOWS_TIME: Final = re.compile(
    r"\+.*|-[uR]|-I\w*|-[dfr].+|--(?:utc|universal|(?:rfc|iso)-\w.*|(?:date|reference)=.*)", re.S
)
#: Programs that run the command behind them and nothing else.
_TRANSPARENT: Final = frozenset({"!", "command", "nice", "time", "timeout"})
#: Commands of git that write nothing but its own index, whatever their options.
_GIT_READERS: Final = frozenset({
    "blame", "cat-file", "describe", "diff", "diff-index", "diff-tree", "for-each-ref", "grep", "log", "ls-files",
    "ls-tree", "merge-base", "name-rev", "rev-list", "rev-parse", "shortlog", "show", "show-ref", "status",
    "whatchanged",
})  # fmt: skip
#: Commands of git that only show something if all their words are these.
_GIT_LISTS: Final[Mapping[str, frozenset[str]]] = {
    "branch": frozenset({"-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--list", "--show-current"}),
    "remote": frozenset({"-v", "--verbose", "show"}),
    "stash": frozenset({"list"}),
    "tag": frozenset({"-l", "--list", "-n"}),
    "worktree": frozenset({"list", "--porcelain"}),
}
#: The same, which do something else without any word.
_GIT_NEEDS_WORD: Final = frozenset({"stash", "worktree"})


def not_reading(facts: Facts) -> str | None:
    """Return why an action may do more than read, on one line; None if it provably only reads."""
    if facts.action in _HARMLESS or facts.action == _READ:
        return "it also writes a file" if facts.writes else None
    if facts.action != _EXEC:
        return "it writes a file" if facts.action == "filesystem.write" else "it is not known to only read"
    if facts.problem:
        return facts.problem
    if facts.writes:
        return "it writes a file"
    return next(filter(None, map(_not_reading, facts.commands or ())), None)


def _not_reading(segment: Segment) -> str | None:
    """Return why one command of a shell line may do more than read."""
    if segment.problem:
        return segment.problem
    if not segment.words and not segment.assignments:
        return None  # a redirect alone: its file is judged by itself
    if segment.assignments:
        return f"{segment.assignments[0].partition('=')[0]} is set for it"
    if around := next((words for words in segment.within if words[0] not in _TRANSPARENT), None):
        return f"`{around[0]}` is not known to only read"
    program, *rest = segment.words or ("",)
    if program == "git":
        return _not_reading_git(tuple(rest))
    if program not in _READERS:
        return f"`{program.replace(HOLE, '…')}` is not known to only read"
    if program == "date" and not all(map(_SHOWS_TIME.fullmatch, rest)):
        return "`date` may set the clock with these words"
    row = program_row(program)
    if row is not None and (row.has_word_rules or row.script) and any(HOLE in word for word in rest):
        return f"part of the words of `{program}` is known only when it runs"
    return None


def _not_reading_git(words: tuple[str, ...]) -> str | None:
    if any(HOLE in word for word in words):
        return "part of the words of `git` is known only when it runs"
    command, own = git_command(words)
    if command in _GIT_READERS:
        return None
    shown = _GIT_LISTS.get(command)
    if shown is not None and set(own) <= shown and (own or command not in _GIT_NEEDS_WORD):
        return None
    return f"`git {command}` is not known to only read"
