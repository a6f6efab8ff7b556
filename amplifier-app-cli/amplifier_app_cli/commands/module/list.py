"""`amplifier module list`, `show` and `current`: the known modules, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished
from amplifier_app_cli.commands.bundle.show import safe, safe_text
from amplifier_app_cli.completion import MODULE as MODULE_ID
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import table, terminal_width
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_core.loader import ModuleLoader
from amplifier_foundation.bundles.explain import named_at
from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.plan.module_config import installed_config
from amplifier_foundation.plan.prepare import Composition
from amplifier_kit.config import Config, config_keys, config_schema
from amplifier_kit.named_tuple import NamedTuple

#: The types of modules in the order they are listed.
TYPES: Final = ("provider", "tool", "hook", "orchestrator", "context")


class ModuleUnknownError(FoundationError):
    """No module has that id."""

    code = "module_not_found"


class Installed(NamedTuple):
    """A module that is installed with the program."""

    package: str
    version: str
    summary: str
    #: `module:attribute` of its mount function.
    entry_point: str
    folder: str


class Placed(NamedTuple):
    """One mention of a module in a plan."""

    #: `tools`, `session`, `agents.explorer.tools`.
    section: str
    #: Its key in the section.
    key: str
    #: `file:line` of the words that name it or its source.
    where: str | None
    source: str | None
    config: Mapping[str, Any]


@dataclass
class KnownModule:
    """Everything known of one module."""

    id: str
    type: str
    installed: Installed | None = None
    placed: list[Placed] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Return, for people, where its code comes from."""
        sources = list(dict.fromkeys(one.source for one in self.placed if one.source))
        if sources:
            return ", ".join(safe_text("source", source) for source in sources)
        return f"{self.installed.package} {self.installed.version}" if self.installed else "not installed"

    def record(self) -> dict[str, Any]:
        """Return it as plain data, without secrets."""
        return {
            "id": self.id,
            "type": self.type,
            "from": self.origin,
            "installed": None if self.installed is None else self.installed._asdict(),
            "plan": [
                {
                    "section": one.section,
                    "key": one.key,
                    "where": one.where,
                    "source": safe("source", one.source),
                    "config": safe(f"{one.section}.{one.key}.config", dict(one.config)),
                }
                for one in self.placed
            ],
        }


async def known_modules(composition: Composition | None) -> list[KnownModule]:
    """Return the installed modules and those of a plan, sorted by type and id."""
    known = await _installed()
    for module_id, kind, placed in _placed(composition) if composition is not None else ():
        known.setdefault(module_id, KnownModule(module_id, kind)).placed.append(placed)
    return sorted(known.values(), key=lambda one: (TYPES.index(one.type) if one.type in TYPES else 9, one.id))


async def _installed() -> dict[str, KnownModule]:
    types = {info.id: str(info.type) for info in await ModuleLoader().discover()}
    known: dict[str, KnownModule] = {}
    for entry in entry_points(group="amplifier.modules"):
        package = entry.dist
        described = (
            Installed(
                package.name,
                package.version,
                _summary(package.metadata),
                entry.value,
                str(package.locate_file("")),
            )
            if package is not None
            else Installed("?", "?", "", entry.value, "?")
        )
        known.setdefault(entry.name, KnownModule(entry.name, types.get(entry.name, "tool"), described))
    return known


def _summary(metadata: Any) -> str:
    return str(metadata["Summary"] or "") if "Summary" in metadata else ""


def _placed(composition: Composition) -> Iterator[tuple[str, str, Placed]]:
    """Yield id, type and place of every module of a plan."""
    uses = {(use.section, use.module): use for use in composition.composed.modules}
    for entry in all_modules(composition.composed.plan):
        module_id, section = entry.module, entry.section
        use = uses.get((section, module_id))
        # A module that is fetched for one place serves the others too.
        use = use or next((one for one in uses.values() if one.module == module_id), None)
        where = use.where if use is not None else named_at(composition.layers, section, entry.key)
        source = use.source if use is not None else entry.source
        yield module_id, entry.kind, Placed(section, entry.key, where, source, entry.entry.get("config") or {})


@click.command("list")
@click.option("-t", "--type", "kind", type=click.Choice(TYPES), help="Only modules of this type.")
@json_option
@report_errors
def list_modules(kind: str | None, as_json: bool) -> None:
    """List the modules that are installed, and those that the bundle that runs here names.

    \b
    Examples:
      amplifier module list
      amplifier module list --type provider
    """
    _print([one for one in _known(needs_plan=False) if kind in (None, one.type)], as_json)


@click.command()
@json_option
@report_errors
def current(as_json: bool) -> None:
    """List the modules of the bundle that runs here, with your settings.

    \b
    Examples:
      amplifier module list
    """
    _print([one for one in _known() if one.placed], as_json)


@click.command()
@click.argument("module_id", metavar="ID", type=MODULE_ID)
@json_option
@report_errors
def show(module_id: str, as_json: bool) -> None:
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
    if as_json:
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


def _print(modules: list[KnownModule], as_json: bool) -> None:
    if as_json:
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
