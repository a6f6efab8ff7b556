"""What every command needs to know: where the user's things are, and how to speak."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from amplifier_foundation.paths import Home
    from amplifier_foundation.settings.keys import KeyStore
    from amplifier_foundation.settings.settings import Settings


class App:
    """One run of the program; its properties are computed on first use."""

    def __init__(
        self,
        is_quiet: bool = False,
        no_input: bool = False,
        is_verbose: bool = False,
        environ: dict[str, str] | None = None,
        is_safe: bool = False,
    ) -> None:
        self.is_quiet = is_quiet
        #: The user must not be asked anything.
        self.no_input = no_input
        self.is_verbose = is_verbose
        self.environ = dict(os.environ) if environ is None else environ
        #: Run with nothing of the user's and the project's but keys and rules.
        self.is_safe = is_safe

    def fresh(self) -> App:
        """Return the same run with nothing read yet: its settings are read again."""
        return App(self.is_quiet, self.no_input, self.is_verbose, self.environ, self.is_safe)

    @cached_property
    def home(self) -> Home:
        """Return the user's home; raises NoHomeError."""
        from amplifier_foundation.paths import Home
        from amplifier_kit.guard.private_files import secret_sources

        home = Home.find()
        secret_sources[:] = [lambda: _keys_of(home)]
        return home

    @cached_property
    def project(self) -> Path:
        """Return the folder the program runs in; raises ProjectGoneError."""
        from amplifier_foundation.paths import current_project

        return current_project()

    @cached_property
    def settings(self) -> Settings:
        """Return the settings of the user and the project; raises SettingsError."""
        from amplifier_foundation.settings.settings import Settings

        return Settings.load(self.home, self.project)

    def key_store(self) -> KeyStore:
        """Return the user's key store."""
        from amplifier_foundation.settings.keys import KeyStore

        return KeyStore(self.home, self.environ)

    @property
    def can_ask(self) -> bool:
        """Return whether there is a person at a terminal who may be asked."""
        import sys

        return not self.no_input and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def can_chat(self) -> bool:
        """Return whether there is a terminal for a chat: input, output and messages."""
        import sys

        return self.can_ask and sys.stdout.isatty()

    def project_at(self, path: str | None) -> Path:
        """Return the project in a folder, this one for None.

        Raises PathNotFoundError for a folder that does not exist and never had a session.
        """
        from amplifier_foundation.errors import PathNotFoundError
        from amplifier_foundation.paths import expanded

        if path is None:
            return self.project
        folder = expanded(path).resolve()
        if not folder.is_dir() and not self.home.sessions(folder).is_dir():
            raise PathNotFoundError(f"{folder}: there is no such folder, and no project with sessions was there")
        return folder

    def inform(self, text: str) -> None:
        """Report something besides the result, on standard error, unless the user wants quiet."""
        from amplifier_app_cli.ui.say import say

        if not self.is_quiet:
            say(text)

    def warn(self, warnings: Iterable[str], label: str = "warning") -> None:
        """Report each of these warnings on standard error, unless the user wants quiet."""
        for warning in warnings:
            self.inform(f"{label}: {warning}")

    def confirm(self, question: str, is_sure: bool, otherwise: str) -> None:
        """Ask the user before something is lost or fetched, unless they gave the flag that says yes.

        Raises click.Abort when the answer is no, and click.UsageError, which ends in `otherwise`, without a terminal.
        """
        if is_sure:
            return
        if not self.can_ask:
            raise click.UsageError(f"cannot ask without a terminal: {otherwise}")
        from amplifier_app_cli.ui.plain import plain

        click.confirm(plain(question), abort=True, err=True)


def _keys_of(home: Home) -> Iterable[str]:
    """Return the user's keys, which must be in no file but their own."""
    from amplifier_foundation.settings.keys import KeyStore

    return KeyStore(home, {}).values_in_file()


def current_app() -> App:
    """Return the run that the current command belongs to."""
    context = click.get_current_context(silent=True)
    found = context.find_object(App) if context is not None else None
    return found or App()
