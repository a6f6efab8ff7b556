"""Complete the values of arguments and options in a shell: sessions, bundles, providers, models, events and more.

Each is a `click` type that accepts any text: commands check names themselves, with a hint. Completion reads files of
this machine only, and stays silent about errors: what it printed would land in the line that is being typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from amplifier_app_cli.app import App, current_app

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: A value, and what a shell that shows help says about it.
Candidate = tuple[str, str]

#: What a shell takes as it is. Others are not offered: it puts them into the line unquoted, and a name may come from a
#: model, or from the files of a project that is not trusted.
_PLAIN: Final = r"[\w@%+=:,./-]+"
#: At most this many values are offered.
_MOST: Final = 100


class Name(click.ParamType[str]):
    """A text that can be completed from the names that there are."""

    name = "text"

    def __init__(self, find: Callable[[App], Iterable[Candidate]]) -> None:
        self._find = find

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with what was typed."""
        from click.shell_completion import CompletionItem

        from amplifier_app_cli.ui.layout import single_line

        items: list[CompletionItem] = []
        try:
            with context.scope(cleanup=False):
                for value, about in self._find(current_app()):
                    if value.startswith(incomplete) and re.fullmatch(_PLAIN, value) and len(items) < _MOST:
                        items.append(CompletionItem(value, help=single_line(about) or None))
        except Exception:  # no home, invalid settings, a bundle that cannot be composed: the commands report it
            pass
        return items


def _sessions(app: App) -> Iterator[Candidate]:
    from amplifier_foundation.sessions.store import SessionStore

    for session in SessionStore(app.home).list(app.project):
        said = session.first_prompt or ""
        yield session.id, session.name or said
        if session.name:
            yield session.name, said


def _bundles(app: App) -> Iterator[Candidate]:
    from amplifier_app_cli.commands.bundle.compose import known_bundles

    for bundle in known_bundles(app).list():
        yield bundle.name, bundle.origin


def _providers(app: App) -> Iterator[Candidate]:
    from amplifier_app_cli.providers.known import KNOWN

    for known in KNOWN:
        yield known.id, known.title
    for entry in app.settings.get("config.providers") or []:
        if isinstance(entry, dict) and entry.get("id"):
            yield str(entry["id"]), f"{entry.get('module')}, in your settings"


def _models(app: App) -> Iterator[Candidate]:
    """Yield the models that settings name, and those that answered in this project before."""
    from amplifier_foundation.sessions.store import SessionStore

    found: dict[str, str] = {}
    for entry in app.settings.get("config.providers") or []:
        config = entry.get("config") if isinstance(entry, dict) else None
        if isinstance(config, dict) and config.get("default_model"):
            found.setdefault(str(config["default_model"]), "in your settings")
    for session in SessionStore(app.home).list(app.project, limit=_MOST):
        if session.model:
            found.setdefault(session.model.rpartition("/")[2], "answered in this project")
    yield from found.items()


def _events(app: App) -> Iterator[Candidate]:
    from amplifier_app_cli.known_events import known_events

    for event in sorted(known_events()):
        yield event, ""


def _agents(app: App) -> Iterator[Candidate]:
    import asyncio

    from amplifier_foundation.plan.prepare import Options, compose

    bundle = click.get_current_context().params.get("bundle")
    options = Options(app.home, app.project, bundle=bundle, settings=app.settings, offline=True, allow_missing=True)
    agents: dict[str, Any] = asyncio.run(compose(options)).composed.plan.get("agents") or {}
    for name, agent in agents.items():
        yield name, str(agent.get("description") or "") if isinstance(agent, dict) else ""


def _modules(app: App) -> Iterator[Candidate]:
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group="amplifier.modules"), key=lambda entry: entry.name):
        yield entry.name, ""


def _keys(app: App) -> Iterator[Candidate]:
    from amplifier_app_cli.providers.known import all_key_names

    for entry in app.key_store().list(all_key_names()):
        yield entry.name, str(entry.where)
    for name in all_key_names():
        yield name, "not set"


def _settings(app: App) -> Iterator[Candidate]:
    for origin in app.settings.explain():
        yield origin.key, origin.scope


def _mcp_servers(app: App) -> Iterator[Candidate]:
    from amplifier_app_cli.mcp.config import find_servers

    for server in find_servers(app, {}).servers:
        yield server.name, server.origin


SESSION: Final = Name(_sessions)
BUNDLE: Final = Name(_bundles)
PROVIDER: Final = Name(_providers)
MODEL: Final = Name(_models)
EVENT: Final = Name(_events)
AGENT: Final = Name(_agents)
MODULE: Final = Name(_modules)
KEY: Final = Name(_keys)
SETTING: Final = Name(_settings)
MCP_SERVER: Final = Name(_mcp_servers)
