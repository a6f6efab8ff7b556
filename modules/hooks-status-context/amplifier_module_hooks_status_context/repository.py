"""Describe a git repository in a few lines."""

from __future__ import annotations

from typing import Final

from amplifier_module_hooks_status_context.command import (
    Answer,
    Git,
    GitUnavailableError,
    NoRepositoryError,
    OpenRepository,
)
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.git_filters import drop_unchanged
from amplifier_module_hooks_status_context.status import Status, parse_status, status_lines
from amplifier_module_hooks_status_context.text import one_line

_REMOTE_HEAD: Final = "refs/remotes/origin/HEAD"
_USUAL_NAMES: Final = ("refs/heads/main", "refs/heads/master")
_NO_COMMITS: Final = "does not have any commits yet"
#: The exit code of `symbolic-ref --quiet` when no branch is checked out.
_DETACHED: Final = 1


async def repository_lines(directory: str, settings: StatusConfig, git: Git | None = None) -> list[str]:
    """Describe the repository of `directory`, or return one line with the reason why git is not available."""
    try:
        opened = await (git or Git()).open(directory, settings.git_timeout)
    except NoRepositoryError:
        return ["Git: this folder is not in a repository"]
    except GitUnavailableError as error:
        return [f"Git: not available ({one_line(str(error))})"]
    try:
        return await _describe(opened, settings)
    finally:
        opened.close()


async def _describe(opened: OpenRepository, settings: StatusConfig) -> list[str]:
    questions: dict[str, tuple[str, ...]] = {"head": ("symbolic-ref", "--quiet", "--short", "HEAD")}
    if settings.git_include_main_branch:
        questions["references"] = ("for-each-ref", "--format=%(refname) %(symref)", _REMOTE_HEAD, *_USUAL_NAMES)
    if settings.git_include_commits:
        count = f"--max-count={settings.git_include_commits}"
        questions["log"] = ("log", count, "--no-decorate", "--format=%h %s")
    if settings.git_include_status:
        # Last: it takes longest, and the answers before the deadline are used.
        untracked = "normal" if settings.git_status_include_untracked else "no"
        # Looking into submodules could start programs of theirs.
        options = ("--ignore-submodules=dirty", f"--untracked-files={untracked}")
        questions["status"] = ("status", "--porcelain=v2", "--branch", "-z", *options)
    answers = dict(zip(questions, await opened.ask(*questions.values()), strict=True))
    head = answers["head"]
    if not head.is_usable and head.code != _DETACHED:
        return [f"Git: not available ({one_line(head.failure or 'no reason given')})"]
    status_answer = answers.get("status")
    status = None
    if status_answer is not None and status_answer.is_usable:
        status = parse_status(status_answer.output, is_cut=status_answer.is_cut)
        await drop_unchanged(status, opened)
    return _lines(_text(head).strip(), status, status_answer, answers.get("log"), answers.get("references"), settings)


def _lines(
    branch: str,
    status: Status | None,
    status_answer: Answer | None,
    log: Answer | None,
    references: Answer | None,
    settings: StatusConfig,
) -> list[str]:
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
