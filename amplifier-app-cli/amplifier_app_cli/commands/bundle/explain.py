"""`amplifier bundle explain`: which file set each value, and what lost."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.commands.bundle.compose import compose_bundle
from amplifier_app_cli.commands.bundle.show import safe, safe_text
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_app_cli.ui.say import complain
from amplifier_app_cli.ui.table import shortened, terminal_width
from amplifier_foundation.bundles.explain import Setting
from amplifier_foundation.bundles.explain import explain as explain_bundle
from amplifier_foundation.errors import did_you_mean


@click.command()
@click.argument("name", required=False)
@click.option("-k", "--key", "prefix", help="Only values at this dotted key and below it.")
@format_option
@report_errors
def explain(name: str | None, prefix: str | None, output_format: str) -> None:
    """Show for every value of a bundle which file and line set it, and which values it replaced.

    NAME is a name, a path or an address; without it, it is the bundle that runs here. Settings count as files too.
    Secrets are masked.

    \b
    Examples:
      amplifier bundle explain
      amplifier bundle explain --key tools.tool-bash
      amplifier bundle explain minimal --format json
    """
    composition = compose_bundle(name)
    bundle = composition.bundle
    settings = explain_bundle(bundle, composition.layers[len(bundle.layers) :])
    chosen = [one for one in settings if prefix is None or _is_below(one.key, prefix)]
    if not chosen and prefix is not None:
        sys.exit(_nothing(prefix, [one.key for one in settings]))
    if output_format == "json":
        print_json([_record(one) for one in chosen])
    else:
        click.echo("\n".join(line for one in chosen for line in _lines(one)))


def _is_below(key: str, prefix: str) -> bool:
    return key == prefix or key.startswith(f"{prefix.rstrip('.')}.")


def _nothing(prefix: str, keys: list[str]) -> int:
    places = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 2)}

    near = difflib.get_close_matches(prefix, sorted(places), n=1)
    hint = did_you_mean(prefix, near or sorted({key.partition(".")[0] for key in keys}))
    return complain(exits.FAILURE, f"nothing sets {prefix!r}: {hint}")


def _record(setting: Setting) -> dict[str, Any]:
    key = setting.key

    def others(losers: Any) -> list[dict[str, Any]]:
        return [{"value": safe(key, one.value), "where": one.where, "bundle": one.bundle} for one in losers]

    return {
        "key": key,
        "value": safe(key, setting.value),
        "where": setting.set_by,
        "bundle": setting.bundle,
        "lost": others(setting.lost),
        "joined": others(setting.joined),
    }


def _lines(setting: Setting) -> Iterator[str]:
    width = terminal_width()

    def fitted(text: str) -> str:
        line = plain(text)
        return shortened(line, width) if width is not None else line

    yield fitted(f"{setting.key}: {safe_text(setting.key, setting.value)}")
    yield fitted(f"  set by {setting.set_by} ({setting.bundle})")
    for word, others in (("joined to", setting.joined), ("lost", setting.lost)):
        for one in others:
            yield fitted(f"  {word} {safe_text(setting.key, one.value)}, {one.where} ({one.bundle})")
