"""Ask before something is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from amplifier_app_cli.app import App


def make_sure(app: App, question: str, is_sure: bool, otherwise: str) -> None:
    """Ask a person, unless they are sure; `otherwise` says which flag to give where there is nobody to ask.

    Raises click.Abort when the answer is no, and click.UsageError when nobody can answer.
    """
    if is_sure:
        return
    if not app.can_ask:
        raise click.UsageError(f"there is nobody to ask: {otherwise}")
    from amplifier_app_cli.ui.plain import plain

    click.confirm(plain(question), abort=True, err=True)
