"""What commands about providers look at: the plan that a run would have, and the user's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.providers.choice import Choice
    from amplifier_foundation.plan.prepare import Composition, Options


@dataclass(frozen=True)
class ProviderPlan:
    """The plan of a run that names no bundle, and an environment with the user's keys in it."""

    plan: dict[str, Any]
    environ: dict[str, str]
    #: None when the bundle cannot be composed: then the plan is what settings alone give.
    composition: Composition | None
    #: What the user should know.
    warnings: tuple[str, ...] = ()

    def choose(self, app: App, explicit: str | None = None) -> Choice:
        """Return the provider that a run would use, or the one that is asked for; raises ProviderChoiceError."""
        from amplifier_app_cli.providers.choice import choose, stands_in

        stand_in = self.composition is None or stands_in(self.composition.layers)
        return choose(self.plan, app.settings, self.environ, explicit=explicit, stand_in=stand_in)


def options_of(app: App, environ: dict[str, str], *, offline: bool) -> Options:
    """Return what this run may do to get at the bundle."""
    from amplifier_foundation.plan.prepare import Options

    on_progress = None if offline else app.inform
    return Options(app.home, app.project, environ=environ, offline=offline, on_progress=on_progress)


def environ_with_keys(app: App) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment with the user's keys, and what is wrong with them; raises KeysError."""
    environ = dict(app.environ)
    store = app.key_store()
    store.apply(environ)
    return environ, tuple(store.warnings)


def provider_plan(app: App) -> ProviderPlan:
    """Compose the bundle of this project without using the network; raises SettingsError and KeysError.

    A bundle that cannot be composed is told as a warning: what settings say can be shown all the same.
    """
    import asyncio

    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.plan.prepare import compose
    from amplifier_foundation.settings.plan import apply_settings

    environ, warnings = environ_with_keys(app)
    settings = app.settings
    try:
        composition = asyncio.run(compose(options_of(app, environ, offline=True)))
    except FoundationError as error:
        return ProviderPlan(apply_settings({}, settings.data), environ, None, (*warnings, str(error)))
    return ProviderPlan(composition.composed.plan, environ, composition, warnings)
