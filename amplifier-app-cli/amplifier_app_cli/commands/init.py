"""`amplifier init`: from nothing to a first answer, with questions or without."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.completion import BUNDLE, MODEL, PROVIDER
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.providers.choice import ProviderChoiceError, first_priority
from amplifier_app_cli.providers.known import require_provider
from amplifier_app_cli.providers.settings import (
    ModuleMissingError,
    ProviderEntry,
    environ_with_keys,
    provider_plan,
    require_module,
    write_entry,
)
from amplifier_app_cli.settings_editor import ACTIVE_BUNDLE, SettingsEditor
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import complain
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.providers.known import KnownProvider


#: How many models of a provider are shown.
_MOST_MODELS: Final = 20


class _Wishes(NamedTuple):
    """The options; None leaves a setting unchanged."""

    provider: KnownProvider | None
    model: str | None
    key_from_env: str | None
    key_stdin: bool
    bundle: str | None
    base_url: str | None
    #: Keys that the user typed, by variable; stored when everything was answered.
    keys: Mapping[str, str] = {}


@click.command()
@click.option("-p", "--provider", type=PROVIDER, help="The provider to use, as in `amplifier provider list`.")
@click.option("-m", "--model", type=MODEL, help="The model to use.")
@click.option("--base-url", metavar="URL", help="Where the provider's server is.")
@click.option("--key-from-env", metavar="NAME", help="The key is in this variable, now and later; it is not copied.")
@click.option("--key-stdin", is_flag=True, help="Read the key from standard input and keep it in keys.env.")
@click.option("-B", "--bundle", type=BUNDLE, help="The bundle to use when a run names none.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask; what is not given stays unchanged.")
@json_option
@report_errors
def init(
    provider: str | None,
    model: str | None,
    base_url: str | None,
    key_from_env: str | None,
    key_stdin: bool,
    bundle: str | None,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Set the program up: provider, key, model, bundle.

    \b
    Examples:
      amplifier init
      amplifier init --provider mock --yes
      amplifier init --provider openai --model gpt-5 --key-from-env OPENAI_API_KEY --yes
      amplifier init --provider vllm --base-url http://127.0.0.1:8000/v1 --yes
      pass show openai | amplifier init --provider openai --key-stdin --yes

    At a terminal, missing values are prompted for: the key before the model, so that your models can be listed. Ctrl-C,
    Ctrl-D or q leaves, and nothing is changed. Running it again changes only what differs.
    """
    app = current_app()
    if key_from_env and key_stdin:
        raise click.UsageError("give --key-from-env or --key-stdin, not both")
    if (model or base_url or key_from_env or key_stdin) and provider is None and (is_sure or not app.can_ask):
        raise click.UsageError("a model, an address or a key needs --provider")
    if not is_sure and not app.can_ask:
        raise click.UsageError("cannot ask without a terminal: give --yes, and --provider, --model or --bundle")
    known = require_provider(provider) if provider is not None else None
    wishes = _Wishes(known, model, key_from_env, key_stdin, bundle, base_url)
    if is_sure:
        app.no_input = True
    else:
        try:
            wishes = _asked(app, wishes)
        except (click.Abort, KeyboardInterrupt):
            app.inform("\nnothing was changed")
            sys.exit(exits.FAILURE)
    _check(app, wishes)
    changed = [what for what, is_changed in _carried_out(app, wishes) if is_changed]
    app.inform(f"changed: {', '.join(changed)}" if changed else "nothing to change")
    _say_what_is_next(app, None if key_from_env else wishes.provider)
    if as_json:
        print_json({"changed": changed, "provider": wishes.provider.module if wishes.provider else None})


def _asked(app: App, wishes: _Wishes) -> _Wishes:
    """Ask for what was not given."""
    from amplifier_app_cli.commands.provider.configure import ask_for_type

    app.inform("Choose a provider, a model and a bundle. Ctrl-C or q leaves; nothing is written before the last answer")
    provider = wishes.provider or require_provider(ask_for_type(app))
    keys = {} if wishes.key_from_env or wishes.key_stdin else _asked_keys(app, provider)
    wishes = wishes._replace(provider=provider, keys=keys, base_url=_asked_address(app, provider, wishes.base_url))
    if wishes.model is None:
        wishes = wishes._replace(model=_asked_model(app, provider, wishes))
    bundle = wishes.bundle
    if bundle is None:
        active = app.settings.get("bundle.active") or "default"
        bundle = _ask("Bundle", default=active)
        # The default needs no setting; it is written only to replace another one.
        bundle = None if bundle == active else bundle
    return wishes._replace(bundle=bundle)


def _ask(question: str, **options: Any) -> str:
    """Return the answer; raises click.Abort for a q, as click does for Ctrl-C and Ctrl-D."""
    answer: str = click.prompt(question, err=True, **options)
    if answer.strip().lower() == "q":
        raise click.Abort
    return answer


def _asked_keys(app: App, provider: KnownProvider) -> dict[str, str]:
    """Ask for the keys that a provider lacks; one without an answer stays unset."""
    typed: dict[str, str] = {}
    for variable in provider.missing(environ_with_keys(app)[0]):
        question = f"{variable} (hidden while you type or paste; empty to set it later)"
        if value := _ask(question, hide_input=True, default="", show_default=False).strip():
            typed[variable] = value
    return typed


def _asked_address(app: App, provider: KnownProvider, given: str | None) -> str | None:
    """Return the address of the provider's server, which is asked for if it has none."""
    variable = provider.address_variable
    if given or not variable or environ_with_keys(app)[0].get(variable, "").strip():
        return given
    return _ask("Address of the server, such as http://127.0.0.1:8000/v1")


def _asked_model(app: App, provider: KnownProvider, wishes: _Wishes) -> str | None:
    """Ask for a model, by name or by its number among those that the provider lists; None for its own choice."""
    found = _models(app, provider, wishes)
    for number, name in enumerate(found[:_MOST_MODELS], 1):
        app.inform(f"  {number:>2}  {plain(name)}")
    if len(found) > _MOST_MODELS:
        app.inform(f"      and {len(found) - _MOST_MODELS} more, by name")
    which = "number or name, " if found else ""
    answer = _ask(f"Model ({which}empty for the provider's own choice)", default="", show_default=False).strip()
    if answer.isdigit() and 0 < int(answer) <= len(found):
        return found[int(answer) - 1]
    return answer or None


def _models(app: App, provider: KnownProvider, wishes: _Wishes) -> list[str]:
    """Return the models that the provider lists with the key and address just given; say why if it lists none."""
    import asyncio

    from amplifier_app_cli.providers.trial import listed_models
    from amplifier_app_cli.ui.streams import guarded_stdout

    environ = {**environ_with_keys(app)[0], **wishes.keys}
    if wishes.key_from_env is None and provider.missing(environ):
        return []
    config = {provider.address_key: wishes.base_url} if wishes.base_url else {}
    if wishes.key_from_env is not None:
        config["api_key"] = environ.get(wishes.key_from_env, "")
    try:
        with guarded_stdout():
            return asyncio.run(listed_models(provider.module, config, environ))
    except Exception as error:  # whatever a module raises: the model can be named all the same
        app.inform(f"note: the models of {provider.id} cannot be listed: {type(error).__name__}: {error}")
        return []


def _check(app: App, wishes: _Wishes) -> None:
    """Check everything before anything is written; raises or exits if something is unavailable."""
    if wishes.key_from_env and not app.environ.get(wishes.key_from_env, "").strip():
        raise click.UsageError(f"{wishes.key_from_env} is not set in the environment")
    if wishes.provider is not None:
        try:
            require_module(app, wishes.provider.module, None)
        except ModuleMissingError as error:
            sys.exit(complain(exits.USAGE, str(error)))
    if wishes.bundle is not None:
        import asyncio

        from amplifier_foundation.plan.prepare import Options, compose

        asyncio.run(compose(Options(app.home, app.project, bundle=wishes.bundle, environ=app.environ)))


def _carried_out(app: App, wishes: _Wishes) -> list[tuple[str, bool]]:
    """Write the chosen settings, and return for each whether it changed."""
    from amplifier_app_cli.commands.provider.configure import keep_key

    editor = SettingsEditor(app, "user")
    done: list[tuple[str, bool]] = []
    known = wishes.provider
    if known is not None:
        store = app.key_store()
        for variable, value in wishes.keys.items():
            store.set(variable, value)
            app.inform(f"{variable} is stored in {store.path}")
        is_given = wishes.key_from_env is not None or (app.can_ask and not wishes.key_stdin)  # or was asked for
        kept = keep_key(app, known, from_stdin=wishes.key_stdin, is_given=is_given)
        done.append(("key", kept or bool(wishes.keys)))
        entry = ProviderEntry(known.module, known.module, None, _config(app, known, wishes))
        done.append(("provider", write_entry(editor, entry)))
    if wishes.bundle is not None:
        done.append(("bundle", editor.set(ACTIVE_BUNDLE.key, _reference(app, wishes.bundle)).changed))
    return done


def _config(app: App, known: KnownProvider, wishes: _Wishes) -> dict[str, Any]:
    """Return the settings of the provider: it comes before all others that are configured."""
    from amplifier_app_cli.commands.provider.configure import with_address

    entries = app.settings.get("config.providers") or []
    config: dict[str, Any] = {
        "priority": first_priority(entry for entry in entries if entry.get("module") != known.module)
    }
    if wishes.model is not None:
        config["default_model"] = wishes.model
    if wishes.key_from_env is not None and wishes.key_from_env not in known.variables:
        config["api_key"] = f"${{{wishes.key_from_env}}}"
    if wishes.base_url is not None:
        config["base_url"] = wishes.base_url
    return with_address(app, known, config)


def _reference(app: App, bundle: str) -> str:
    """Return what names the bundle from everywhere: a path is made absolute."""
    from amplifier_foundation.bundles.loader import is_path

    return str((app.project / bundle).resolve()) if is_path(bundle) and not bundle.startswith("~") else bundle


def _say_what_is_next(app: App, provider: KnownProvider | None) -> None:
    """Say which provider answers from now on, and what to run: what is missing for `provider` first."""
    fresh = app.fresh()
    found = provider_plan(fresh)
    app.warn(found.warnings)
    try:
        app.inform(found.choose(fresh).line)
    except ProviderChoiceError as error:
        app.inform(f"warning: {error}")
    missing = _missing_keys(fresh, provider, found.environ) if provider is not None else ()
    steps = [
        *(f"amplifier keys set {name}" for name in missing),
        'amplifier run "What is in this folder?"',
        "amplifier doctor        checks everything",
    ]
    for number, step in enumerate(steps):
        app.inform(f"{'next:' if number == 0 else '     '} {step}")


def _missing_keys(app: App, provider: KnownProvider, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the variables that have still to be set; none when the settings say where else the key is."""
    entries = app.settings.get("config.providers") or []
    has_own = any(
        entry.get("module") == provider.module and (entry.get("config") or {}).get("api_key") for entry in entries
    )
    return () if has_own else provider.missing(environ)
