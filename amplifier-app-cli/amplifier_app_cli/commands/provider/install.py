"""`amplifier provider install`: bring what a provider needs besides its module."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.completion import PROVIDER
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.providers.known import KNOWN, how_to_get, is_installed, require_provider
from amplifier_app_cli.providers.local_model import download_size, install_local_model, missing_parts
from amplifier_app_cli.providers.model_download import download_model, is_downloaded
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import complain
from amplifier_kit.local_model import CODER, ENGINE, PARTS, SMALL_MODEL, local_model_folder, models_folder

_LOCAL: Final = "provider-local"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=PROVIDER)
@click.option("--all", "is_all", is_flag=True, help="Ask for all known providers.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Download what has to be downloaded, without asking.")
@click.option("-q", "--quiet", is_flag=True, help="Report only what is not installed.")
@click.option("--force", is_flag=True, help="Reinstall what is installed.")
@click.option(
    "--model",
    type=click.Choice([SMALL_MODEL, CODER.name]),
    help=f"Model of `local`: {SMALL_MODEL} (127 MB) answers, {CODER.name} (1.1 GB) also uses tools.",
)
@json_option
@report_errors
def install(
    names: tuple[str, ...], is_all: bool, is_sure: bool, quiet: bool, force: bool, model: str | None, as_json: bool
) -> None:
    """Install what providers need.

    \b
    Examples:
      amplifier provider install local --yes
      amplifier provider install local --model qwen2.5-coder-1.5b
      amplifier provider install --all

    Modules come with the program, so there is nothing to install for most of them. `local` is a model that runs on this
    machine: its engine and its weights are downloaded once, into a folder of your home. An interrupted download goes on
    where it stopped.
    """
    if not names and not is_all:
        raise click.UsageError("say which providers, or give --all")
    if model and "local" not in names:
        raise click.UsageError("--model is for the provider local: `amplifier provider install local --model NAME`")
    app = current_app()
    code = exits.OK
    records: list[dict[str, object]] = []
    for name in dict.fromkeys([*names, *(known.id for known in KNOWN if is_all)]):
        known = require_provider(name)
        if not is_installed(known.module):
            code = complain(exits.USAGE, how_to_get(known.module))
        elif known.module == _LOCAL and model == CODER.name:
            _install_coder(app, is_sure=is_sure, quiet=quiet, force=force)
        elif known.module == _LOCAL:
            _install_local(app, is_sure=is_sure, is_asked_for=name in names, quiet=quiet, force=force)
        elif not quiet:
            app.inform(f"{known.module} is installed")
        records.append({"provider": known.id, "module": known.module, "installed": is_installed(known.module)})
    if as_json:
        print_json(records)
    sys.exit(code)


def _install_local(app: App, *, is_sure: bool, is_asked_for: bool, quiet: bool, force: bool) -> None:
    """Install the engine and the weights unless they are installed; nothing is downloaded without a yes."""
    parts = list(PARTS) if force else missing_parts(app.home.path)
    if not parts:
        if not quiet:
            app.inform(f"{_LOCAL} is installed, with its engine and its weights")
        return
    words = f"{_LOCAL}: {download_size(parts)} is downloaded into {local_model_folder(app.home.path)}"
    if not is_sure:
        if not app.can_ask and not is_asked_for:
            app.inform(f"{words} by `amplifier provider install local --yes`")
            return
        app.confirm(f"{words}. Continue?", is_sure, f"give --yes ({words})")
    else:
        app.inform(words)
    folder = asyncio.run(install_local_model(app.home.path, parts, app.environ, app.inform))
    app.inform(f"{_LOCAL} is installed in {folder}; try it with `amplifier provider test local`")


def _install_coder(app: App, *, is_sure: bool, quiet: bool, force: bool) -> None:
    """Install the engine and the larger model unless they are installed; nothing is downloaded without a yes."""
    home = app.home.path
    engine = [ENGINE] if force or ENGINE in missing_parts(home) else []
    if not engine and not force and is_downloaded(home):
        if not quiet:
            app.inform(f"{CODER.name} is installed, with its engine")
        return
    size = CODER.download_megabytes + sum(part.megabytes for part in engine)
    words = f"{CODER.title} (Apache-2.0): about {size:,} MB are downloaded into {models_folder(home)}"
    app.confirm(f"{words}. Continue?", is_sure, f"give --yes ({words})")
    if is_sure:
        app.inform(words)
    if engine:
        asyncio.run(install_local_model(home, engine, app.environ, app.inform))
    if force or not is_downloaded(home):
        with click.progressbar(length=CODER.size, label=CODER.name, file=sys.stderr) as bar:
            download_model(home, app.environ, bar.update)
    app.inform(f'{CODER.name} is installed; try it with `amplifier run --provider local "..."`')
