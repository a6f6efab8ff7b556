"""Check the config of a plan's modules before a session starts, with file and line of what is wrong.

Modules publish a model of their config (`amplifier_kit.config`). A key that the model does not have is an error in a
file of the project, the user or the product, and a warning in a fetched one. Wrong values are warnings here, because
the module itself refuses them when it is mounted; the warning adds file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.plan.prepared import Prepared

if TYPE_CHECKING:
    from amplifier_kit.config import Config


class ModuleConfigError(FoundationError):
    """A file of the project, the user or the product sets config keys that a module does not have."""

    code = "config_invalid"


def check_module_configs(plan: Mapping[str, Any], prepared: Prepared) -> list[str]:
    """Return warnings about the config of installed modules, in the plan and in its agents.

    Raises ModuleConfigError with a line for each unknown key, unless the plan is that of a recorded session: one that
    could start once can be resumed.
    """
    if prepared.is_made_by_app:
        return []  # no file contributed to it, and the modules warn of unknown keys themselves
    errors: list[str] = []
    warnings: list[str] = []
    for one in all_modules(plan):
        config = one.entry.get("config")
        # A module in its own folder may be another version: it reports unknown keys itself.
        model = None if not config or one.module in prepared.modules else installed_config(one.module)
        if model is None:
            continue
        from amplifier_kit.config import check_config

        is_whole = not one.section.startswith(("agents.", "spawn."))
        for problem in check_config(model, config):
            if not is_whole and not problem.is_unknown:
                continue  # a child adds this to its parent's config: what is missing here may be there
            from amplifier_foundation.bundles.explain import config_origin

            origin = config_origin(prepared.layers, one.section, one.key, problem.keys)
            place, owner = origin if origin is not None else (f"{one.path}.config", None)
            is_error = problem.is_unknown and owner not in (None, "fetched") and not prepared.is_recorded
            (errors if is_error else warnings).append(f"{place}: {one.module}: {problem.text}")
    if errors:
        raise ModuleConfigError("\n".join(errors))
    return warnings


def installed_config(module_id: str) -> type[Config] | None:
    """Return the config model that an installed module publishes; None when it publishes none or cannot be imported.

    The import runs the code of the module, as mounting it does.
    """
    from importlib import import_module

    from amplifier_kit.config import config_model

    try:
        return config_model(import_module(f"amplifier_module_{module_id.replace('-', '_')}"))
    except ImportError:
        return None  # mounting it reports why
