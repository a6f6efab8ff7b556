"""`amplifier provider test` and `models`: ask a provider something, through its module."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.completion import PROVIDER
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.providers.choice import Choice
from amplifier_app_cli.providers.trial import NotReadyError, ask, models_of, provider_brought_up
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_app_cli.ui.say import complain, show_warnings
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_kit.engine.usage import money


@click.command()
@click.argument("name", required=False, type=PROVIDER)
@json_option
@report_errors
def test(name: str | None, as_json: bool) -> None:
    """Send one tiny request to a provider.

    \b
    Examples:
      amplifier provider test
      amplifier provider test openai --json

    It goes through the provider's module, as every request of a session does, but is tried only once. Without NAME it
    goes to the provider that a run would use. It may cost a fraction of a cent.
    """
    app = current_app()
    choice, answer = _asked(app, name, ask, as_json)
    if as_json:
        print_json({"status": "ok", "provider": choice.provider, **answer._asdict()})
        return

    spent = f"{answer.input_tokens or 0} tokens in, {answer.output_tokens or 0} out"
    cost = f", {money(Decimal(answer.cost_usd))}" if answer.cost_usd is not None else ""
    click.echo(f"{choice.provider}: ok, model {answer.model or 'unknown'}, {answer.duration_ms} ms, {spent}{cost}")
    app.inform(f"it said: {plain(answer.text)[:200] or '(nothing)'}")


@click.command()
@click.argument("name", required=False, type=PROVIDER)
@json_option
@report_errors
def models(name: str | None, as_json: bool) -> None:
    """Print the models of a provider.

    \b
    Examples:
      amplifier provider models
      amplifier provider models mock --json

    Without NAME they are those of the provider that a run would use.
    """
    choice, found = _asked(current_app(), name, models_of, as_json)
    records = [{"provider": choice.provider, **model.model_dump(mode="json")} for model in found]
    rows = [(model.id, model.display_name, model.context_window, model.max_output_tokens) for model in found]
    headings, empty = ("MODEL", "NAME", "CONTEXT", "OUTPUT"), f"{choice.provider} lists no models"
    print_list(as_json, records, headings, rows, empty=empty)


class _ProviderFailed(Exception):
    """The provider was there, and failed."""


def _asked(app: App, name: str | None, question: Callable[[Any], Awaitable[Any]], as_json: bool) -> Any:
    """Return the provider that was chosen and what it said; ends the command when it fails."""
    show_warnings()
    try:
        with guarded_stdout():
            return asyncio.run(_ask(app, name, question))
    except _ProviderFailed as error:
        if as_json:
            print_json({"status": "error", "code": "provider_failed", "error": str(error)})
        sys.exit(complain(exits.PROVIDER, str(error)))


async def _ask(app: App, name: str | None, question: Callable[[Any], Awaitable[Any]]) -> tuple[Choice, Any]:
    try:
        async with provider_brought_up(app, name) as (choice, provider):
            if name is None:
                app.inform(choice.line)
            try:
                return choice, await question(provider)
            except Exception as error:  # whatever a module raises: it is the module that is tried
                raise _ProviderFailed(f"{choice.provider} failed: {type(error).__name__}: {error}") from error
    except NotReadyError as error:
        raise _ProviderFailed(str(error)) from error
