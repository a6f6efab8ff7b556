"""`amplifier bundle validate`: find what is wrong with a bundle before it is run."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.bundle.compose import finished, known_bundles
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.bundles.agents import resolve_agents
from amplifier_foundation.bundles.bundle import Bundle, BundleError, BundleNotFoundError
from amplifier_foundation.bundles.explain import explain
from amplifier_foundation.bundles.loader import BundleLoader
from amplifier_foundation.bundles.references import existing_file, tried_files
from amplifier_foundation.paths import expanded
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.fetcher import Fetcher


@click.command()
@click.argument("path", type=click.Path())
@click.option("--part", "is_part", is_flag=True, help="It is to be included: it needs no loop, context or provider.")
@json_option
@report_errors
def validate(path: str, is_part: bool, as_json: bool) -> None:
    """Check the bundle at PATH, a file or a folder, with everything it includes; exit with 1 when it has a fault.

    Every key and value, every file it names, its agents, and whether it can run as it is. Your settings are left out.

    \b
    Examples:
      amplifier bundle validate .
      amplifier bundle validate behaviors/review.yaml --part
    """
    place = current_app().project / expanded(path)
    if existing_file(place) is None and not place.exists():
        raise BundleNotFoundError(f"no bundle at {place}: tried {tried_files(place)}")
    errors, warnings = finished(_validated(current_app(), path, is_part))
    if as_json:
        print_json({"valid": not errors, "path": path, "errors": errors, "warnings": warnings})
    else:
        _print(path, errors, warnings)
    sys.exit(exits.FAILURE if errors else exits.OK)


def _print(path: str, errors: list[str], warnings: list[str]) -> None:
    for word, texts in (("error", errors), ("warning", warnings)):
        for text in texts:
            click.echo(plain(f"{word}: {text}"))
    click.echo(plain(f"{path}: {'not valid' if errors else 'valid'} ({len(errors)} errors, {len(warnings)} warnings)"))


async def _validated(app: App, path: str, is_part: bool) -> tuple[list[str], list[str]]:
    """Return the faults and the warnings, each with file and line where it has one."""
    from amplifier_foundation.bundles.checks import validate, validate_completeness

    fetcher = Fetcher(app.home, environ=app.environ, on_progress=app.inform)
    overrides = app.settings.get("sources.bundles") or {}
    loader = BundleLoader(fetcher, known_bundles(app), app.home, app.project, overrides=overrides)
    warnings: list[str] = []
    try:
        bundle = await loader.load(str(app.project / expanded(path)), given_by_user=True)
        warnings += [*bundle.warnings, *fetcher.warnings]
        _resolve_agents(app, bundle, warnings)
    except (BundleError, SourceError) as error:
        return str(error).splitlines(), warnings
    result = validate(bundle, strict=True) if is_part else validate_completeness(bundle, strict=True)
    warnings += [_placed(bundle, text) for text in result.warnings]
    return [_placed(bundle, text) for text in result.errors], [*dict.fromkeys(warnings)]


def _resolve_agents(app: App, bundle: Bundle, warnings: list[str]) -> None:
    resolve_agents(
        bundle.agents,
        bundle.namespaces,
        bundle.name,
        app.project,
        app.home,
        warnings=warnings,
        agent_namespaces=bundle.agent_namespaces,
        layers=bundle.layers,
    )


def _placed(bundle: Bundle, text: str) -> str:
    """Return a fault of the composed bundle with the line that is to be changed."""
    context = re.match(r"context '(.+?)': ", text)
    if context is not None:
        where: Any = next((one.set_by for one in explain(bundle) if one.key == f"context.{context[1]}"), None)
        if where is not None:
            return f"{where}: {text}"
    own = bundle.layers[-1].document if bundle.layers else None
    if own is None:
        return text
    section = re.match(r"session|providers|tools|hooks|agents", text)
    return f"{own.where(section[0] if section is not None else 'bundle')}: {text}"
