"""`amplifier doctor`: check everything that a run needs, and say how to repair what is wrong."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from amplifier_app_cli import __version__, exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.version import first_party_versions
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.mcp.config import Found, State, find_servers
from amplifier_app_cli.providers.known import all_key_names
from amplifier_app_cli.providers.settings import environ_with_keys, options_of, provider_plan
from amplifier_app_cli.ui.layout import folded, size_text, terminal_width
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.plan.prepare import Composition


#: Warn below the first, fail below the second.
_LITTLE: Final = 1_000_000_000
_TOO_LITTLE: Final = 50_000_000
_OLDEST_PYTHON: Final = (3, 11)
#: The least width of a finding's text.
_NARROWEST: Final = 20
_OWNER_ONLY: Final = 0o077
_WRITABLE_BY_OTHERS: Final = 0o022
#: Programs that are used when they are there, and what for.
_PROGRAMS: Final = {
    "git": "bundles and modules from git sources",
    "bwrap": "running commands in a sandbox (package bubblewrap)",
    "rg": "fast search in files (package ripgrep)",
}


class Finding(NamedTuple):
    """What one check found."""

    check: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""


@click.command()
@json_option
@report_errors
def doctor(as_json: bool) -> None:
    """Check everything that a run needs.

    \b
    Examples:
      amplifier doctor
      amplifier doctor --json

    Nothing is fetched. The exit code is 1 when a check fails; warnings do not count.
    """
    app = current_app()
    with guarded_stdout():
        findings = list(_findings(app))
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        checks = [finding._asdict() for finding in findings]
        print_json({"status": "fail" if failed else "ok", "checks": checks})
    else:
        _print(findings)
    sys.exit(exits.FAILURE if failed else exits.OK)


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    indent = len(f"{'':<5} {'':<{width}}  ")
    room = max((terminal_width() or sys.maxsize) - indent, _NARROWEST)
    for finding in findings:
        lines = folded(plain(finding.detail), room).splitlines() or [""]
        lines += folded(f"→ {plain(finding.remedy)}", room).splitlines() if finding.remedy else []
        click.echo(f"{finding.status:<5} {finding.check:<{width}}  {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{'':<{indent}}{line}")


def _findings(app: App) -> Iterator[Finding]:
    """Yield the findings of all checks; a check that raises is a failure and does not stop the others."""
    checks: tuple[tuple[str, Callable[[App], Iterator[Finding]]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("home", _home),
        ("disk", _disk),
        ("settings", _settings),
        ("keys", _keys),
        ("bundle", _bundle),
        ("provider", _provider),
        ("mcp", _mcp),
        ("trust", _trust),
        ("index", _index),
        ("programs", _programs),
    )

    for name, check in checks:
        try:
            yield from check(app)
        except (FoundationError, OSError) as error:
            yield Finding(name, "fail", str(error))


def _python(app: App) -> Iterator[Finding]:
    detail = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < _OLDEST_PYTHON:
        yield Finding("python", "fail", detail, "install Python 3.11 or newer, and the program with it")
    else:
        yield Finding("python", "ok", detail)


def _packages(app: App) -> Iterator[Finding]:
    versions = first_party_versions()
    others = {name: version for name, version in versions.items() if version != __version__}
    if others:
        listed = ", ".join(f"{name} {version or 'not installed'}" for name, version in others.items())
        remedy = "reinstall the program, so that all its parts come from one release"
        yield Finding("packages", "fail", f"the program is {__version__}, but: {listed}", remedy)
    else:
        yield Finding("packages", "ok", f"all {len(versions)} parts are {__version__}")


def _home(app: App) -> Iterator[Finding]:
    home = app.home.path
    nearest = _nearest(home)
    if not nearest.is_dir():
        yield Finding("home", "fail", f"{nearest} is not a folder", "move it away, or set AMPLIFIER_HOME")
    elif not _is_writable(nearest):
        yield Finding("home", "fail", f"{nearest} cannot be written", "change its owner, or set AMPLIFIER_HOME")
    else:
        yield Finding("home", "ok", str(home) if nearest == home else f"{home} (not created yet)")


def _disk(app: App) -> Iterator[Finding]:
    free = shutil.disk_usage(_nearest(app.home.path)).free
    status: Literal["ok", "warn", "fail"] = "fail" if free < _TOO_LITTLE else "warn" if free < _LITTLE else "ok"
    remedy = (
        ""
        if status == "ok"
        else "make room: `amplifier session remove --inactive 30`, `amplifier settings reset --remove cache`"
    )
    yield Finding("disk", status, f"{size_text(free)} free at {_nearest(app.home.path)}", remedy)


def _settings(app: App) -> Iterator[Finding]:
    loaded = app.settings
    for warning in loaded.warnings:
        yield Finding("settings", "warn", warning)
    for scope, document in loaded.documents:
        mode = document.path.stat().st_mode & 0o777
        if mode & _WRITABLE_BY_OTHERS and scope == "user":
            yield Finding("settings", "warn", f"{document.path} can be changed by others ({mode:03o})", "chmod 600 it")
    names = ", ".join(scope for scope, _ in loaded.documents) or "none, and none are needed"
    yield Finding("settings", "ok", f"files: {names}")


def _keys(app: App) -> Iterator[Finding]:
    try:
        mode = app.home.keys.stat().st_mode & 0o777
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    store = app.key_store()
    entries = store.list(all_key_names())  # which restricts the mode, and warns
    for warning in store.warnings:
        yield Finding("keys", "warn", warning, "consider new keys" if mode & _OWNER_ONLY else "")
    names = ", ".join(f"{entry.name} ({entry.where})" for entry in entries)
    yield Finding("keys", "ok", names or "none")


def _bundle(app: App) -> Iterator[Finding]:
    """Compose the bundle and load every module of it; what an untrusted project names is not loaded."""
    import asyncio

    from amplifier_foundation.plan.prepare import compose

    environ, _ = environ_with_keys(app)
    options = options_of(app, environ, offline=True)
    try:
        composition = asyncio.run(compose(options))
    except FoundationError as error:
        yield _unavailable("bundle", error)
        return
    for warning in composition.warnings:
        yield Finding("bundle", "warn", warning)
    yield Finding("bundle", "ok", f"{composition.composed.name} {composition.composed.version} composes")
    if composition.refusals:
        listed = "\n".join(f"{refusal.where}: {refusal.what}" for refusal in composition.refusals)
        yield Finding(
            "modules",
            "warn",
            f"not loaded, because the project is not trusted:\n{listed}",
            "`amplifier trust` shows more",
        )
        return
    try:
        modules, failures = asyncio.run(_load_all(composition, options))
    except FoundationError as error:
        yield _unavailable("modules", error)
        return
    for failure in failures:
        yield Finding("modules", "fail", failure, "install it, name a source for it, or take it out of the bundle")
    yield Finding("modules", "ok", f"{modules - len(failures)} of {modules} load")


def _unavailable(check: str, error: Exception) -> Finding:
    """Return the finding for a missing bundle or module: one that was never fetched is not a failure."""
    if getattr(error, "code", "") == "offline":
        return Finding(check, "warn", str(error), "run it once with a network: this check fetches nothing")
    return Finding(check, "fail", str(error))


async def _load_all(composition: Composition, options: Any) -> tuple[int, list[str]]:
    """Load every module of the plan without mounting any; return how many there are, and a line for each that fails."""
    from amplifier_core import AmplifierSession
    from amplifier_foundation.plan.import_path import hold
    from amplifier_foundation.plan.prepare import activate
    from amplifier_foundation.sources.module_resolver import PreparedModules

    prepared = await activate(composition.composed, options)
    session = AmplifierSession({"session": {"orchestrator": "none", "context": "none"}})
    await session.coordinator.mount("module-source-resolver", PreparedModules(prepared.modules))
    logging.getLogger("amplifier_core").addHandler(logging.NullHandler())  # what fails is in the findings
    failures: list[str] = []
    entries = _module_entries(composition.composed.plan)
    release = hold((*prepared.package_paths, *prepared.modules.values()), prepared.project)
    try:
        for module, source in entries:
            try:
                await session.loader.load(module, {}, source_hint=source, coordinator=session.coordinator)
            except Exception as error:  # importing a module may raise anything
                failures.append(f"{module}: {error}")
    finally:
        release()
    return len(entries), failures


def _module_entries(plan: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return id and source of every module of a plan and of its agents, each once."""
    from amplifier_foundation.bundles.plan_modules import all_modules

    found: dict[str, str | None] = {}
    for entry in all_modules(plan):
        found.setdefault(entry.module, entry.source)
    return list(found.items())


def _provider(app: App) -> Iterator[Finding]:
    choice = provider_plan(app).choose(app)
    said = f"{choice.provider}{f', model {choice.model}' if choice.model else ''} ({choice.why})"
    if choice.unset:
        keep = " and ".join(f"`amplifier keys set {name}`" for name in choice.unset)
        yield Finding("provider", "fail", f"{said} has no key: not set: {', '.join(choice.unset)}", keep)
        return
    yield Finding("provider", "warn" if choice.is_mock else "ok", said, choice.how_to_change if choice.is_mock else "")


def _mcp(app: App) -> Iterator[Finding]:
    """Name the MCP servers that a run would start; none is started here."""

    found = find_servers(app, provider_plan(app).plan)
    for problem in found.problems:
        yield Finding("mcp", "warn", problem, "repair the file: what it names is not used")
    if untrusted := _listed(found, "untrusted"):
        detail = f"not started, because the project is not trusted: {untrusted}"
        yield Finding("mcp", "warn", detail, "`amplifier trust` shows more")
    servers = _listed(found, "enabled")
    if servers and not found.has_module:
        remedy = "add the behaviour `amplifier:behaviors/mcp` to the bundle"
        yield Finding("mcp", "warn", f"not used, because the bundle has no tool-mcp: {servers}", remedy)
    else:
        yield Finding("mcp", "ok", servers or "no servers")


def _listed(found: Found, state: State) -> str:
    return ", ".join(f"{server.name} ({server.origin})" for server in found.servers if server.state == state)


def _trust(app: App) -> Iterator[Finding]:
    from amplifier_foundation.trust.control_files import control_file_hashes

    state = TrustStore(app.home).state(app.project)
    if state.problem is not None:
        yield Finding("trust", "fail", state.problem)
    elif state.state == "changed":
        changed = ", ".join(state.changed)
        yield Finding("trust", "warn", f"{app.project} was trusted; changed since: {changed}", "`amplifier trust`")
    elif state.trusted:
        yield Finding("trust", "ok", f"{app.project} is trusted")
    else:
        files = len(control_file_hashes(app.project))
        detail = f"{app.project} is not trusted" + (f"; files that may name code: {files}" if files else "")
        yield Finding("trust", "ok", detail)


def _index(app: App) -> Iterator[Finding]:
    from amplifier_foundation.sessions.store import SessionIndex

    path = app.home.index
    if not path.exists():
        yield Finding("index", "ok", "none yet; it is created when sessions are listed")
        return
    index = SessionIndex(path)
    sessions = sum(len(rows) for rows in index.load().values())
    if index.problem is not None:
        yield Finding(
            "index", "warn", index.problem, "it is rebuilt when sessions are listed; lists are slower until then"
        )
    else:
        yield Finding("index", "ok", f"{sessions} sessions")


def _programs(app: App) -> Iterator[Finding]:
    from amplifier_kit.guard.processes.programs import find_program

    uv = _find_uv(app)
    missing = Finding(
        "uv", "warn", "not found: it is for installing what modules need", "install uv; till then pip is used"
    )
    yield Finding("uv", "ok", uv) if uv else missing
    for name, use in _PROGRAMS.items():
        found = find_program(name, app.environ.get("PATH"), [app.project])
        missing = Finding(name, "warn", f"not found: it is for {use}", f"install {name} with your system's packages")
        if found and name == "bwrap":
            yield _sandbox(app, found)
        else:
            yield Finding(name, "ok", found) if found else missing


def _sandbox(app: App, program: str) -> Finding:
    """Try the sandbox: many systems have the program but do not permit it to work."""
    from amplifier_kit.guard.sandbox.config import SandboxConfig
    from amplifier_kit.guard.sandbox.sandbox import Sandbox

    status = Sandbox(SandboxConfig(), app.project, hidden=[app.home.path]).status
    if status.is_active:
        return Finding("bwrap", "ok", program)
    return Finding(
        "bwrap",
        "warn",
        f"{program} does not work here: {status.reason}",
        "see docs/sandbox.md; commands run unconfined",
    )


def _find_uv(app: App) -> str | None:
    """Return where uv is: beside the program as a package, else on the path."""
    from amplifier_kit.guard.processes.programs import find_program

    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return find_program("uv", app.environ.get("PATH"), [app.project])


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest one above it that exists."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def _is_writable(folder: Path) -> bool:
    """Return whether a file can be created in a folder, by creating one: permissions alone do not decide."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
