"""The sources that a bundle fetches: what its locks pin, and whether the server has something newer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from amplifier_foundation.plan.lock_file import BundleLock
from amplifier_foundation.plan.locks import LockPaths
from amplifier_foundation.plan.prepare import Composition
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.git import git_login
from amplifier_foundation.sources.uri import SourceUri, parse_source, without_secrets
from amplifier_kit.guard.git import fetch_command, fetch_environment
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command

#: How long one server may take to answer, in seconds.
_TIMEOUT: Final = 60.0


@dataclass(frozen=True)
class SourceState:
    """What one source is now, and what it would become."""

    #: The address as it may be shown, which is how a lock names it.
    uri: str
    #: `fixed` names a commit and never changes; of `unknown` only fetching it tells.
    status: Literal["current", "newer", "new", "fixed", "unknown", "failed"]
    before: str | None = None
    after: str | None = None
    problem: str | None = None

    @property
    def may_change(self) -> bool:
        """Return whether fetching it again may bring something else."""
        return self.status in ("newer", "new", "unknown")


def read_pinned(locks: LockPaths, name: str) -> BundleLock:
    """Return all pins of a bundle, none when it has no lock; addresses are without passwords. Raises LockError."""
    pins = {}
    for path in (locks.own, locks.added):
        lock = BundleLock.read(path)
        pins.update({} if lock is None else {without_secrets(uri): pin for uri, pin in lock.sources.items()})
    return BundleLock(locks.own, name, pins)


def fetched_sources(composition: Composition, modules: Iterable[str] | None = None) -> dict[str, str]:
    """Return the addresses of everything a bundle fetches, by how they are shown; of these `modules` only if given."""
    uses = composition.composed.modules
    if modules is not None:
        wanted = set(modules)
        uris = [use.source for use in uses if use.module in wanted]
    else:
        # What was fetched to compose the bundle is pinned. Later addresses take the place of earlier ones that are the
        # same but for a password.
        uris = [*sorted(composition.composed.pins), *composition.bundle.sources, *(use.source for use in uses)]
    return {without_secrets(uri): uri for uri in uris if parse_source(uri).kind in ("git", "zip", "http")}


async def look_for_newer(
    composition: Composition, sources: Mapping[str, str], project: Path, environ: Mapping[str, str]
) -> list[SourceState]:
    """Return the state of each of these sources, asked for all at the same time; nothing is fetched or changed."""
    pins = {without_secrets(uri): pin for uri, pin in composition.composed.pins.items()}
    known = {shown: pins[shown]["commit"] if shown in pins else None for shown in sources}
    parsed = {shown: parse_source(uri) for shown, uri in sources.items()}
    asked = {(one.url, one.ref): one for one in parsed.values() if one.kind == "git" and not one.is_commit}
    answers = await asyncio.gather(*(_newest(one, project, environ) for one in asked.values()))
    newest = dict(zip(asked, answers, strict=True))
    return [
        _state(shown, one, known[shown], shown in pins, newest.get((one.url, one.ref))) for shown, one in parsed.items()
    ]


def _state(
    shown: str, source: SourceUri, before: str | None, is_known: bool, newest: tuple[str | None, str | None] | None
) -> SourceState:
    if source.is_commit:
        return SourceState(shown, "fixed" if is_known else "new", before, source.ref)
    if newest is None:
        return SourceState(shown, "unknown" if is_known else "new", before)
    commit, problem = newest
    if commit is None:
        return SourceState(shown, "failed", before, problem=problem)
    status: Literal["current", "newer", "new"] = "current" if commit == before else "newer" if is_known else "new"
    return SourceState(shown, status, before, commit)


async def _newest(source: SourceUri, project: Path, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the commit that the ref of a repository is now, or why it is unknown."""
    ref = source.ref
    names = ["HEAD"] if ref == "HEAD" else [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}"]
    try:
        login = git_login(source.url)
        arguments = ("ls-remote", "--quiet", "--", login.url, *names)
        outside = [str(project)]
        command = fetch_command(*arguments, environ=environ, options=login.options, outside=outside)
        env = {**fetch_environment(environ, outside=outside), **login.environ}
        # Not in the project, whose repository would have a say about servers and programs.
        result = await run_command(command, timeout=_TIMEOUT, env=env)
    except SourceError as error:
        return None, str(error)
    except CommandTimeoutError:
        return None, f"git had no answer after {_TIMEOUT:g} s"
    except OSError as error:
        return None, f"git cannot run: {error}"
    if result.returncode != 0:
        said = " ".join(without_secrets(result.output).split())
        return None, f"git could not ask: {said[-300:] or result.returncode}"
    found = {name: commit for commit, name in re.findall(r"^([0-9a-f]{40,64})\t(\S+)$", result.output, re.MULTILINE)}
    commit = next((found[name] for name in names if name in found), None)
    return commit, None if commit else f"the repository has no branch or tag {ref!r}"
