"""`amplifier update`: fetch newer versions of what runs here, and say how the program itself is updated."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click

from amplifier_app_cli import __version__
from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.update import update_bundles
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import check_option, yes_option
from amplifier_app_cli.ui.records import json_option


@click.command()
@check_option
@yes_option()
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def update(is_check: bool, is_sure: bool, trust: bool, as_json: bool) -> None:
    """Fetch newer versions of everything that the bundle which runs here uses: bundles and modules.

    Which commits change is said before anything is done. The program itself is updated by what installed it.

    \b
    Examples:
      amplifier update --check
      amplifier update --yes
    """
    code = update_bundles([None], is_check=is_check, is_sure=is_sure, trust=trust, as_json=as_json)
    current_app().inform(f"the program itself: {_how()}")
    sys.exit(code)


def _how() -> str:
    """Return the command that updates the program, by what installed it."""
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        command = "uv tool upgrade amplifier"
    elif "pipx" in Path(sys.prefix).parts:
        command = "pipx upgrade amplifier"
    else:
        try:
            installer = (distribution("amplifier").read_text("INSTALLER") or "").strip()
        except PackageNotFoundError:
            return f"version {__version__}, which is run from its source: update that"
        command = "uv pip install --upgrade amplifier" if installer == "uv" else "pip install --upgrade amplifier"
    return f"version {__version__}; `{command}` updates it"
