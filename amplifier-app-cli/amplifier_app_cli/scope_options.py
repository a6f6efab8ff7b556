"""Options that say which settings file is meant, and the one way in which commands change it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.settings import KeyStore, Scope
    from amplifier_foundation.settings.edit import Edit

Function = TypeVar("Function", bound=Callable[..., Any])

_NAMES = ("user", "project", "local", "session", "global")


@dataclass(frozen=True)
class ScopeChoice:
    """The scope that the options name; None when they name none."""

    scope: Scope | None
    #: The session as the user gave it.
    session: str | None = None

    def folder(self, app: App) -> Path | None:
        """Return the folder of the session, None when none is meant; raises SessionNotFoundError."""
        if self.session is None:
            return None
        from amplifier_foundation.sessions.store import SessionStore

        return SessionStore(app.home).find(self.session, app.project).folder

    def file(self, app: App) -> Path:
        """Return the settings file that is meant, the user's when no scope was named; raises SettingsError."""
        from amplifier_foundation.settings.scopes import scope_file

        return scope_file(self.scope or "user", app.home, app.project, self.folder(app))


def scope_options(command: Function) -> Function:
    """Add `--scope`, its short forms and `--session` to a command, which gets them as one `where: ScopeChoice`."""

    @click.option("--session", "session", metavar="ID", help="The session that the scope `session` is about.")
    @click.option("--global", "flags", flag_value="user", multiple=True, help="The same as --scope user.")
    @click.option("--project", "flags", flag_value="project", multiple=True, help="The same as --scope project.")
    @click.option("--local", "flags", flag_value="local", multiple=True, help="The same as --scope local.")
    @click.option("--scope", "scope", type=click.Choice(_NAMES), metavar="|".join(_NAMES[:-1]), help="Whose settings.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, scope: str | None, flags: tuple[str, ...], session: str | None, **options: Any) -> Any:
        return command(*arguments, where=_choice(scope, flags, session), **options)

    return wrapped  # type: ignore[return-value]


def _choice(scope: str | None, flags: tuple[str, ...], session: str | None) -> ScopeChoice:
    from amplifier_foundation.settings.scopes import parse_scope

    named = {parse_scope(name) for name in (*flags, *((scope,) if scope else ()), *(("session",) if session else ()))}
    if len(named) > 1:
        raise click.UsageError(f"choose one scope: {', '.join(sorted(named))} were given")
    chosen = named.pop() if named else None
    if chosen == "session" and session is None:
        raise click.UsageError("settings of a session: say which with --session ID")
    return ScopeChoice(chosen, session)


def key_store(app: App) -> KeyStore:
    """Return the user's key store."""
    from amplifier_foundation.settings.keys import KeyStore

    return KeyStore(app.home, app.environ)


def change_settings(app: App, where: ScopeChoice, change: Callable[[Path, KeyStore], Edit]) -> Edit:
    """Change one settings file on the user's word, and say where it lies and which secrets went to the key store.

    A project that is trusted stays so: what the user writes through this program needs no second look. Raises
    SettingsError and TrustStoreError.
    """
    from amplifier_foundation.trust.projects import TrustStore

    file, keys = where.file(app), key_store(app)
    trust = TrustStore(app.home)
    is_shared = where.scope in ("project", "local")
    relative = file.relative_to(app.project).as_posix() if is_shared else ""
    before = trust.state(app.project) if is_shared else None
    edit = change(file, keys)
    # What somebody else changed in this file before is not accepted along with it.
    if edit.changed and before is not None and before.problem is None and relative not in before.changed:
        trust.accept(app.project, file)
    for moved in edit.moved:
        app.inform(f"{moved.key}: the secret is in {keys.path} as {moved.variable}; the settings refer to it")
    for warning in keys.warnings:
        app.inform(f"warning: {warning}")
    return edit
