"""Fetch git repositories: shallow, without questions, within a deadline.

The user's own settings count, filters such as large file storage included: what these produce is the content that a
lock file records. Nothing that the fetched repository, or one that we work in, configures is run or followed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from amplifier_foundation.sources.fetched import SourceError, SourceNotFoundError
from amplifier_foundation.sources.uri import SourceUri, without_secrets
from amplifier_kit.guard.git import GitMissingError, fetch_command, fetch_environment
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.paths.resolution import ParsedURI, ResolvedSource
    from amplifier_foundation.sources.protocol import SourceStatus

#: How many seconds one attempt may take, unless the variable of this name says otherwise.
TIMEOUT: Final = 300.0
#: How many seconds a server may take to say what it has.
_ANSWER_TIMEOUT: Final = 60.0
TIMEOUT_VARIABLE: Final = "AMPLIFIER_GIT_CLONE_TIMEOUT_S"
#: How long to wait before the second and the third attempt, in seconds.
RETRY_PAUSES: tuple[float, ...] = (1.0, 2.0)

#: Failures that stay the same however often it is tried.
_LASTING: Final = re.compile(
    r"not found|does not exist|not appear to be a git repository|could not read (Username|Password)"
    r"|Authentication failed|Permission denied|access rights|Access denied|Host key verification failed"
    r"|returned error: 4(?!08|29)\d\d|certificate|dubious ownership|No space left|Read-only file system"
    r"|unable to create|not allowed|unadvertised|not our ref|couldn't find remote ref|is not a (commit|tree)"
    r"|unable to find remote helper|is not a valid|bad object|pathspec",
    re.IGNORECASE,
)
#: A server that hands out only whole branches, or only whole histories.
_NEEDS_ALL: Final = re.compile(r"unadvertised|not our ref|couldn't find remote ref|shallow", re.IGNORECASE)
_NO_REF: Final = re.compile(
    r"Remote branch .* not found|is not a (commit|tree)|bad object|pathspec|unable to read tree"
)
_HINTS: Final = (
    (re.compile("certificate", re.I), "set GIT_SSL_CAINFO or SSL_CERT_FILE to the file of the CA that signed it"),
    (
        re.compile(r"could not read|Authentication|Permission denied|access rights|error: 40[13]", re.I),
        "check the name, and that git may read it without asking (a credential helper, or a key in the ssh agent)",
    ),
    (re.compile(r"Could not resolve|Failed to connect|timed out", re.I), "check the network and HTTPS_PROXY"),
    (re.compile("dubious ownership"), "add the folder to git's safe.directory if you trust its owner"),
)


class _GitError(Exception):
    """One git command failed; the text is what git said."""


async def clone(source: SourceUri, folder: Path, environ: Mapping[str, str]) -> str:
    """Put the files of a repository at the source's ref into an empty folder; return the commit.

    Temporary failures are retried, up to three attempts. Raises SourceNotFoundError when the repository does not have
    the ref, SourceError for all else. The caller removes what a failure leaves in the folder.
    """
    import asyncio

    seconds = _seconds(environ)
    for pause in (*RETRY_PAUSES, None):
        attempt = _Attempt(source, folder, environ, time.monotonic() + seconds)
        try:
            return await attempt.fetch()
        except CommandTimeoutError as error:
            raise SourceError(
                f"{source.shown}: git took longer than {seconds:g} s and was stopped; "
                f"set {TIMEOUT_VARIABLE} to allow more"
            ) from error
        except OSError as error:
            is_missing = isinstance(error, GitMissingError)
            why = "git is not installed: install it, or put it on PATH" if is_missing else f"git cannot run: {error}"
            raise SourceError(f"{source.shown}: {why}") from error
        except _GitError as error:
            if pause is None or _LASTING.search(str(error)):
                raise _explained(source, str(error)) from error
            await asyncio.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


class _Attempt:
    """One try to fetch one repository, all its commands within one deadline."""

    def __init__(self, source: SourceUri, folder: Path, environ: Mapping[str, str], deadline: float) -> None:
        self._source = source
        self._folder = folder
        self._login = git_login(source.url)
        self._given = environ
        fixed = fetch_environment(environ, folder=str(folder))
        self._environ = {**fixed, **self._login.environ}
        self._deadline = deadline

    async def fetch(self) -> str:
        await self._emptied()
        if self._source.is_commit:
            await self._commit()
        else:
            await self._branch()
        commit = (await self._git("-C", str(self._folder), "rev-parse", "--verify", "HEAD")).strip()
        found = re.search(r"^[0-9a-f]{40,64}$", commit, re.MULTILINE)
        if found is None or (self._source.is_commit and found[0] != self._source.ref):
            raise SourceError(f"{self._source.shown}: git fetched something else: {commit!r}")
        return found[0]

    async def _branch(self) -> None:
        ref = () if self._source.ref == "HEAD" else ("--branch", self._source.ref)
        try:
            await self._clone("--depth", "1", "--single-branch", *ref)
        except _GitError as error:
            if not _NEEDS_ALL.search(str(error)):
                raise
            await self._emptied()
            await self._clone(*ref)

    async def _commit(self) -> None:
        here = ("-C", str(self._folder))
        await self._git("init", "--quiet", "--", str(self._folder))
        await self._git(*here, "remote", "add", "origin", self._login.url)
        try:
            await self._git(*here, "fetch", "--quiet", "--depth", "1", "origin", self._source.ref)
        except _GitError as error:
            if not _NEEDS_ALL.search(str(error)):
                raise
            await self._emptied()
            await self._clone("--no-checkout")
        await self._git(*here, "checkout", "--quiet", "--detach", self._source.ref)

    async def _clone(self, *options: str) -> None:
        await self._git("clone", "--quiet", *options, "--", self._login.url, str(self._folder))

    async def _emptied(self) -> None:
        """Remove what a failed command left."""
        import shutil

        from amplifier_kit.threads import in_thread

        def empty() -> None:
            for entry in self._folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()

        await in_thread(empty)

    async def _git(self, *arguments: str) -> str:
        command = fetch_command(*arguments, environ=self._given, options=self._login.options)
        left = max(self._deadline - time.monotonic(), 0.001)
        # The current directory may have been removed; git needs one that exists.
        result = await run_command(
            command, timeout=left, cwd=self._folder, because="it is the new repository", env=self._environ
        )
        if result.returncode != 0:
            raise _GitError(result.output.strip() or f"git ended with code {result.returncode}")
        return result.output


def _seconds(environ: Mapping[str, str]) -> float:
    text = environ.get(TIMEOUT_VARIABLE)
    if not text:
        return TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SourceError(
            f"{TIMEOUT_VARIABLE}={text!r} is not a number of seconds: give one greater than 0, or unset it"
        )
    return seconds


def _explained(source: SourceUri, output: str) -> SourceError:
    output = without_secrets(output)
    lines = [line for line in output.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    said = "; ".join(lines[-3:]) or output[-300:]
    if _NO_REF.search(output):
        return SourceNotFoundError(
            f"{source.shown}: the repository has no branch, tag or commit {source.ref!r} ({said}). Name one after '@': "
            "a commit with all its 40 digits, or HEAD for the branch the repository itself prefers"
        )
    hint = next((hint for pattern, hint in _HINTS if pattern.search(output)), "")
    return SourceError(f"{source.shown}: git could not fetch it: {said}" + (f". Next: {hint}" if hint else ""))


# Passwords: never on git's command line, which every user of the machine can read.

_USER: Final = "AMPLIFIER_GIT_USER"
_PASSWORD: Final = "AMPLIFIER_GIT_PASSWORD"
#: A helper as git knows them; the shell that runs it sees the names of the variables and puts in what they hold.
_HELPER: Final = f'!f() {{ test "$1" != get || printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"; }}; f'


class GitLogin(NamedTuple):
    """An address as git may be given it, and what git needs besides to log in there."""

    url: str
    #: Settings for `git -c`.
    options: tuple[str, ...] = ()
    #: Variables for git's environment.
    environ: Mapping[str, str] = MappingProxyType({})


def git_login(url: str) -> GitLogin:
    """Return the address without its password, which git passes only to its own host, on request.

    An address without a password, and one that is not of the web, stays as it is. Raises SourceError for a login with
    characters that cannot be passed to git.
    """
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    login, _, host = place.rpartition("@")
    user, colon, password = (unquote(part) for part in login.partition(":"))
    if scheme not in ("http", "https") or not colon:
        return GitLogin(url)
    if not (user + password).isprintable():
        raise SourceError(f"{scheme}://***@{host}{slash}{path}: the login has characters that no login can have")
    server = f"{scheme}{separator}{host}"
    # No other credential helper is asked for it or stores it.
    options = (f"credential.{server}.helper=", f"credential.{server}.helper={_HELPER}")
    return GitLogin(f"{server}{slash}{path}", options, {_USER: user, _PASSWORD: password})


async def newest_commit(
    source: SourceUri, environ: Mapping[str, str], outside: Sequence[str] = ()
) -> tuple[str | None, str | None]:
    """Return the commit that the ref of a repository is now, or why it is unknown; nothing is fetched.

    `outside` are folders whose repositories must not configure what git runs.
    """
    ref = source.ref
    names = ["HEAD"] if ref == "HEAD" else [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}"]
    try:
        login = git_login(source.url)
        arguments = ("ls-remote", "--quiet", "--", login.url, *names)
        command = fetch_command(*arguments, environ=environ, options=login.options, outside=outside)
        env = {**fetch_environment(environ, outside=outside), **login.environ}
        result = await run_command(command, timeout=_ANSWER_TIMEOUT, env=env)
    except SourceError as error:
        return None, str(error)
    except CommandTimeoutError:
        return None, f"git timed out after {_ANSWER_TIMEOUT:g} s"
    except OSError as error:
        return None, f"git cannot run: {error}"
    if result.returncode != 0:
        said = " ".join(without_secrets(result.output).split())
        return None, f"cannot list the branches of the repository: {said[-300:] or result.returncode}"
    found = {name: commit for commit, name in re.findall(r"^([0-9a-f]{40,64})\t(\S+)$", result.output, re.MULTILINE)}
    commit = next((found[name] for name in names if name in found), None)
    return commit, None if commit else f"the repository has no branch or tag {ref!r}"


class GitSourceHandler:
    """Handle the sources of published apps that are repositories; see `SourceHandlerWithStatusProtocol`."""

    def can_handle(self, parsed: ParsedURI) -> bool:
        """Return whether an address is one of a repository."""
        return parsed.is_git

    async def resolve(self, parsed: ParsedURI, cache_dir: Path) -> ResolvedSource:
        """Return the part of a repository that is meant, fetched if it is not cached; raises SourceError."""
        from amplifier_foundation.sources.resolver import fetch_parsed

        return await fetch_parsed(parsed, cache_dir)

    async def get_status(self, parsed: ParsedURI, cache_dir: Path) -> SourceStatus:
        """Return whether the repository has something newer than the cache."""
        from amplifier_foundation.sources.resolver import text_of
        from amplifier_foundation.sources.status import source_status

        return await source_status(text_of(parsed), cache_dir)

    async def update(self, parsed: ParsedURI, cache_dir: Path) -> ResolvedSource:
        """Fetch a repository again and return the part that is meant; raises SourceError."""
        from amplifier_foundation.sources.resolver import fetch_parsed

        return await fetch_parsed(parsed, cache_dir, refresh=True)
