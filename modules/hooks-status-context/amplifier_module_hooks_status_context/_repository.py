"""Describe a git repository in a few lines."""

from __future__ import annotations

import asyncio
from typing import Final

from amplifier_module_hooks_status_context._command import Answer, Git
from amplifier_module_hooks_status_context._settings import Settings
from amplifier_module_hooks_status_context._status import Status, parse_status, status_lines
from amplifier_module_hooks_status_context._text import one_line

_NO_REPOSITORY: Final = "not a git repository"
_REMOTE_HEAD: Final = "refs/remotes/origin/HEAD"
_USUAL_NAMES: Final = ("refs/heads/main", "refs/heads/master")
_NO_COMMITS: Final = "does not have any commits yet"
#: git says so by exiting with 1 when no branch is checked out.
_DETACHED: Final = 1


async def repository_lines(directory: str, settings: Settings) -> list[str]:
    """Return what git says about `directory`, or one line that says why it says nothing; raise nothing."""
    git = Git(directory, settings.git_timeout)
    head = await git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if not head.is_usable and head.code != _DETACHED:
        if _NO_REPOSITORY in head.failure:
            return ["Git: this folder is in no repository"]
        return [f"Git: not available ({one_line(head.failure or 'no reason given')})"]
    asked = await asyncio.gather(_status(git, settings), _log(git, settings), _references(git, settings))
    return _lines(_text(head).strip(), *asked, settings)


async def _status(git: Git, settings: Settings) -> Answer | None:
    if not settings.git_include_status:
        return None
    untracked = "normal" if settings.git_status_include_untracked else "no"
    # What submodules look like inside is their own business, and theirs to start programs for.
    options = ("--ignore-submodules=dirty", f"--untracked-files={untracked}")
    return await git.ask("status", "--porcelain=v2", "--branch", "-z", *options)


async def _log(git: Git, settings: Settings) -> Answer | None:
    if not settings.git_include_commits:
        return None
    return await git.ask("log", f"--max-count={settings.git_include_commits}", "--no-decorate", "--format=%h %s")


async def _references(git: Git, settings: Settings) -> Answer | None:
    if not settings.git_include_main_branch:
        return None
    return await git.ask("for-each-ref", "--format=%(refname) %(symref)", _REMOTE_HEAD, *_USUAL_NAMES)


def _lines(
    branch: str, status_answer: Answer | None, log: Answer | None, references: Answer | None, settings: Settings
) -> list[str]:
    status = None
    if status_answer is not None and status_answer.is_usable:
        status = parse_status(status_answer.output, is_cut=status_answer.is_cut)
    lines = []
    if settings.git_include_branch:
        lines.append(_branch_line(branch, status))
    if references is not None:
        lines += _main_branch_lines(references)
    if status is not None:
        lines += status_lines(status, settings)
    elif status_answer is not None:
        lines.append(f"Git status: not known ({one_line(status_answer.failure or 'no reason given')})")
    if log is not None:
        lines += _commit_lines(log)
    return lines


def _branch_line(branch: str, status: Status | None) -> str:
    if not branch:
        at = f" at {status.commit[:10]}" if status is not None and status.commit is not None else ""
        return f"Git branch: none (detached{at})"
    tracking = ""
    if status is not None and status.upstream is not None:
        tracking = f", tracking {one_line(status.upstream)} ({status.ahead} ahead, {status.behind} behind)"
    return f"Git branch: {one_line(branch)}{tracking}"


def _main_branch_lines(references: Answer) -> list[str]:
    known = dict(line.partition(" ")[::2] for line in _lines_of(references))
    found = known.get(_REMOTE_HEAD, "").removeprefix("refs/remotes/origin/")
    for name in _USUAL_NAMES:
        if not found and name in known:
            found = name.removeprefix("refs/heads/")
    return [f"Main branch: {one_line(found)}"] if found else []


def _commit_lines(log: Answer) -> list[str]:
    if not log.is_usable:
        reason = "none yet" if _NO_COMMITS in log.failure else f"not known ({one_line(log.failure)})"
        return [f"Recent commits: {reason}"]
    return ["Recent commits:", *(one_line(line) for line in _lines_of(log))]


def _text(answer: Answer) -> str:
    return answer.output.decode("utf-8", "replace")


def _lines_of(answer: Answer) -> list[str]:
    return _text(answer).rstrip("\n").split("\n")  # not splitlines(): a subject may hold other kinds of line breaks
