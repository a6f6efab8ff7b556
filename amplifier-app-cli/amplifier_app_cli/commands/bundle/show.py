"""`amplifier bundle show`: what a session of a bundle is made of, and which file set each value."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from amplifier_app_cli.commands.bundle.compose import compose_bundle
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import shortened, terminal_width
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.explain import Setting
from amplifier_foundation.bundles.explain import explain as explain_bundle
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.plan.prepare import Composition
from amplifier_foundation.settings.scopes import SettingNotFoundError
from amplifier_foundation.settings.secrets import masked
from amplifier_foundation.sources.uri import without_secrets

_KEY_OPTION: Final = click.option(
    "-k", "--key", "prefix", metavar="KEY", help="Explain only the values at this dotted key and below it."
)


@click.command()
@click.argument("name", required=False, type=BUNDLE)
@click.option("--explain", "is_explained", is_flag=True, help="Show which file and line set each value instead.")
@_KEY_OPTION
@json_option
@report_errors
def show(name: str | None, is_explained: bool, prefix: str | None, as_json: bool) -> None:
    """Show what the bundle NAME (a name, a path or an address; else the one that runs here) is made of.

    Everything it includes and your settings are in it. Nothing of it is run. With --explain: for every value, the file
    and line that set it, and the values it replaced.

    \b
    Examples:
      amplifier bundle show
      amplifier bundle show minimal
      amplifier bundle show --explain --key tools.tool-bash
      amplifier bundle show ./my-bundle --json
    """
    composition = compose_bundle(name)
    if is_explained or prefix is not None:
        _explain(composition, prefix, as_json)
    elif as_json:
        print_json(_record(composition))
    else:
        click.echo("\n".join(_lines(composition)))


def _record(composition: Composition) -> dict[str, Any]:
    bundle, composed = composition.bundle, composition.composed
    return {
        "name": bundle.name,
        "version": bundle.version,
        "description": bundle.description,
        "reference": safe("reference", composed.reference),
        "uri": safe("uri", composed.uri),
        "file": str(bundle.file) if bundle.file is not None else None,
        "files": [
            {
                "file": str(layer.document.path),
                "bundle": layer.bundle,
                "uri": safe("uri", layer.uri),
                "owner": layer.owner,
                "named_by": layer.named_by,
            }
            for layer in composition.layers
        ],
        "plan": {section: safe(section, part) for section, part in composed.plan.items()},
        "context": composed.context,
        "instruction": composed.instruction,
        "lock": composed.lock,
        "sources": {safe("uri", uri): dict(pin) for uri, pin in composed.pins.items()},
        "needs_trust": [safe("refusal", str(refusal)) for refusal in composition.refusals],
        "warnings": list(composition.warnings),
    }


def _lines(composition: Composition) -> Iterator[str]:
    width = terminal_width()
    for label, value in _facts(composition):
        line = " ".join(plain(f"{label:<14}{value}").split("\n"))
        # Paths are not cut: they are for copying.
        is_cut = width is not None and not value.startswith("/")
        yield (shortened(line, width) if width is not None and is_cut else line).rstrip()


def _facts(composition: Composition) -> Iterator[tuple[str, str]]:
    bundle, composed = composition.bundle, composition.composed
    plan = composed.plan
    yield "name", f"{bundle.name} {bundle.version}"
    if bundle.description:
        yield "description", bundle.description
    yield "from", safe_text("uri", str(bundle.file or composed.uri))
    session = plan.get("session") or {}
    for kind in SESSION_MODULES:
        yield kind, _module(session.get(kind))
    for section in MODULE_SECTIONS:
        yield from _rows(section, [_module(entry) for entry in plan.get(section) or []])
    yield from _rows("agents", list(plan.get("agents") or {}))
    yield from _rows("files", [str(path) for path in composed.context.values()])
    yield from _rows("includes", list(dict.fromkeys(str(one.document.path) for one in bundle.layers[:-1])))
    pins = composed.pins.items()
    yield from _rows(
        "sources", [f"{safe_text('uri', uri)} ({(pin['commit'] or 'no commit')[:12]})" for uri, pin in pins]
    )
    yield "instruction", composed.instruction.split("\n")[0] if composed.instruction else "none"
    yield from _rows("needs trust", [safe_text("refusal", str(refusal)) for refusal in composition.refusals])


def _rows(label: str, values: list[str]) -> Iterator[tuple[str, str]]:
    """Yield one row for each value, the first with the label."""
    for index, value in enumerate(values):
        yield ("" if index else label), value


def _module(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry or "none")
    name = str(entry.get("module", "?"))
    called = f" as {entry['id']}" if entry.get("id") else ""
    source = f" from {safe_text('source', entry['source'])}" if entry.get("source") else ""
    return f"{name}{called}{source}"


def safe(key: str, value: Any) -> Any:
    """Return a value as it may be shown under a dotted key: secrets in clear and passwords in addresses are masked."""
    return masked(tuple(key.split(".")), _without_passwords(value))


def safe_text(key: str, value: Any) -> str:
    """Return the same as one line of text."""
    shown = safe(key, value)
    return shown if isinstance(shown, str) and "\n" not in shown else json.dumps(shown, ensure_ascii=False, default=str)


def _without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value) if "://" in value else value
    if isinstance(value, dict):
        return {key: _without_passwords(item) for key, item in value.items()}
    return [_without_passwords(item) for item in value] if isinstance(value, list) else value


@click.command()
@click.argument("name", required=False, type=BUNDLE)
@_KEY_OPTION
@json_option
@report_errors
def explain(name: str | None, prefix: str | None, as_json: bool) -> None:
    """Show which file and line set each value of a bundle: the same as `amplifier bundle show --explain`.

    \b
    Examples:
      amplifier bundle show --explain --key tools.tool-bash
    """
    _explain(compose_bundle(name), prefix, as_json)


def _explain(composition: Composition, prefix: str | None, as_json: bool) -> None:
    """Print where every value comes from; settings count as files too, secrets are masked."""
    bundle = composition.bundle
    settings = explain_bundle(bundle, composition.layers[len(bundle.layers) :])
    chosen = [one for one in settings if prefix is None or _is_below(one.key, prefix)]
    if not chosen and prefix is not None:
        raise _nothing(prefix, [one.key for one in settings])
    if as_json:
        print_json([_setting_record(one) for one in chosen])
    else:
        click.echo("\n".join(line for one in chosen for line in _setting_lines(one)))


def _is_below(key: str, prefix: str) -> bool:
    return key == prefix or key.startswith(f"{prefix.rstrip('.')}.")


def _nothing(prefix: str, keys: list[str]) -> SettingNotFoundError:
    places = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 2)}

    near = difflib.get_close_matches(prefix, sorted(places), n=1)
    hint = did_you_mean(prefix, near or sorted({key.partition(".")[0] for key in keys}))
    return SettingNotFoundError(f"nothing sets {prefix!r}: {hint}")


def _setting_record(setting: Setting) -> dict[str, Any]:
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


def _setting_lines(setting: Setting) -> Iterator[str]:
    width = terminal_width()

    def fitted(text: str) -> str:
        line = plain(text)
        return shortened(line, width) if width is not None else line

    yield fitted(f"{setting.key}: {safe_text(setting.key, setting.value)}")
    yield fitted(f"  set by {setting.set_by} ({setting.bundle})")
    for word, others in (("joined to", setting.joined), ("lost", setting.lost)):
        for one in others:
            yield fitted(f"  {word} {safe_text(setting.key, one.value)}, {one.where} ({one.bundle})")
