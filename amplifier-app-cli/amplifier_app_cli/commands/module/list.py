"""`amplifier module list`, `show` and `current`: which modules there are, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished
from amplifier_app_cli.commands.module.known import KnownModule, ModuleUnknownError, known_modules
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_app_cli.ui.table import table, terminal_width
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.plan.module_config import installed_config
from amplifier_kit.config import Config, config_keys, config_schema

_TYPES = ["provider", "tool", "hook", "orchestrator", "context"]


@click.command("list")
@click.option("-t", "--type", "kind", type=click.Choice(_TYPES), help="Only modules of this type.")
@format_option
@report_errors
def list_modules(kind: str | None, output_format: str) -> None:
    """List the modules that are installed, and those that the bundle which runs here names.

    \b
    Examples:
      amplifier module list
      amplifier module list --type provider
    """
    _print([one for one in _known(needs_plan=False) if kind in (None, one.type)], output_format)


@click.command()
@format_option
@report_errors
def current(output_format: str) -> None:
    """List the modules of the bundle that runs here, with your settings.

    \b
    Examples:
      amplifier module current
    """
    _print([one for one in _known() if one.placed], output_format)


@click.command()
@click.argument("module_id", metavar="ID")
@format_option
@report_errors
def show(module_id: str, output_format: str) -> None:
    """Print what is known of the module ID: its package, its config keys, and where the bundle here uses it.

    \b
    Examples:
      amplifier module show provider-mock
    """
    known = {one.id: one for one in _known(needs_plan=False)}
    found = known.get(module_id)
    if found is None:
        raise ModuleUnknownError(f"unknown module {module_id!r}: {did_you_mean(module_id, sorted(known))}")

    model = installed_config(module_id) if found.installed is not None else None
    if output_format == "json":
        print_json({**found.record(), "config_schema": config_schema(model) if model is not None else None})
    else:
        click.echo(plain("\n".join((*_lines(found), *_config_lines(model)))))


def _known(*, needs_plan: bool = True) -> list[KnownModule]:
    """Return the modules; a bundle that cannot be composed hides what is installed only if the plan is the point."""
    try:
        composition = compose_bundle()
    except FoundationError as error:
        if needs_plan:
            raise
        current_app().inform(f"note: the bundle that runs here cannot be used, its modules are not listed: {error}")
        composition = None
    return finished(known_modules(composition))


def _print(modules: list[KnownModule], output_format: str) -> None:
    if output_format == "json":
        print_json([one.record() for one in modules])
        return

    if not modules:
        current_app().inform("no modules: see `amplifier module add`")
        return
    width = terminal_width()
    rows = [(one.id, one.type, _sections(one) or "-", _origin(one, is_read=width is not None)) for one in modules]
    click.echo(table(("MODULE", "TYPE", "IN THE PLAN", "FROM"), rows, width, whole=("MODULE",)))


def _origin(module: KnownModule, *, is_read: bool) -> str:
    """Return where a module comes from; the table leaves out a package with the name of the module."""
    is_plain = module.installed is not None and module.origin == f"amplifier-module-{module.id}"
    return f"installed, {module.installed.version}" if is_read and is_plain and module.installed else module.origin


def _sections(module: KnownModule) -> str:
    return ", ".join(dict.fromkeys(one.section for one in module.placed))


def _lines(module: KnownModule) -> Iterator[str]:
    record = module.record()
    yield f"{'module':<14}{module.id}"
    yield f"{'type':<14}{module.type}"
    yield f"{'from':<14}{module.origin}"
    if module.installed is not None:
        yield f"{'package':<14}{module.installed.package} {module.installed.version}"
        yield f"{'about':<14}{module.installed.summary}"
        yield f"{'entry point':<14}{module.installed.entry_point}"
        yield f"{'folder':<14}{module.installed.folder}"
    for place in record["plan"]:
        yield f"{'in the plan':<14}{place['section']}, {place['where'] or 'by the settings'}"
        if place["config"]:
            yield f"{'  config':<14}{json.dumps(place['config'], ensure_ascii=False, default=str)}"
    if not record["plan"]:
        yield f"{'in the plan':<14}not used by the bundle that runs here"


def _config_lines(model: type[Config] | None) -> Iterator[str]:
    """Yield a line for each config key: what it accepts, its default and what it is for."""
    if model is None:
        return

    keys = config_keys(model)
    yield f"{'config keys':<14}{'' if keys else 'none'}".rstrip()
    for key in keys:
        default = "required" if key.is_required else f"default {json.dumps(key.default, default=str)}"
        yield f"  {key.key}: {key.expected} ({default}){f'. {key.description}' if key.description else ''}"
