"""`amplifier update`: fetch newer versions of what runs here, and say how the program itself is updated."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click

from amplifier_app_cli import __version__
from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.sources import lock_bundle
from amplifier_app_cli.commands.bundle.update import all_names, update_bundles
from amplifier_app_cli.commands.module.update import update_modules
from amplifier_app_cli.completion import BUNDLE, MODULE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import check_option, source_option, yes_option
from amplifier_app_cli.ui.records import json_option


@click.command()
@click.argument("bundle", required=False, type=BUNDLE)
@click.option("--all", "everything", is_flag=True, help="Update all bundles that have a name here.")
@click.option("--module", "module_id", metavar="ID", type=MODULE, help="Update this module alone.")
@source_option
@click.option("--lock", "is_lock", is_flag=True, help="Fetch nothing newer: pin in the lock file what is in use.")
@check_option
@yes_option()
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def update(
    bundle: str | None,
    everything: bool,
    module_id: str | None,
    source: str | None,
    is_lock: bool,
    is_check: bool,
    is_sure: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Fetch newer versions of everything that BUNDLE (else the one that runs here) uses, and pin them in its lock file.

    The commits that change are shown before anything is done. The program itself is updated by what installed it.

    \b
    Examples:
      amplifier update --check
      amplifier update --yes
      amplifier update team
      amplifier update --module tool-web
      amplifier update --lock
    """
    if sum((bundle is not None, everything, module_id is not None)) > 1:
        raise click.UsageError("give one of BUNDLE, --all and --module")
    if source is not None and (everything or module_id is not None):
        raise click.UsageError("--source is for one bundle: leave out --all and --module")
    if is_lock and (everything or module_id is not None or source is not None):
        raise click.UsageError("--lock is for one bundle: leave out --all, --module and --source")
    if is_lock:
        sys.exit(lock_bundle(bundle, is_check=is_check, trust=trust, as_json=as_json))
    if module_id is not None:
        sys.exit(update_modules(module_id, is_check=is_check, is_sure=is_sure, trust=trust, as_json=as_json))
    names: list[str | None] = [*all_names(current_app())] if everything else [bundle]
    code = update_bundles(names, source, is_check=is_check, is_sure=is_sure, trust=trust, as_json=as_json)
    if bundle is None and not everything and source is None:
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
