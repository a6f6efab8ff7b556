"""The mount plan of a session: how it is completed before the session runs, what it says, and loading its modules.

A `ModuleFailure` describes why one cannot be used: the reason, the place, and how to fix it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.data import reason
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.plan import SESSION_MODULES, TYPE_TO_MOUNT_POINT, plan_modules, session_module
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.tracebacks import frame_lines, location
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_core import AmplifierSession
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.trust.store import GivenTrust

logger = logging.getLogger(__name__)

#: Seconds that a hook, and a module's `on_session_ready`, may take; a plan may set others.
HOOK_TIMEOUT: Final = 30.0
READY_TIMEOUT: Final = 10.0
#: Tools whose config has the folders that they may write to.
_FILE_TOOLS: Final = ("tool-filesystem", "tool-apply-patch")


class ModulesMissingError(FoundationError):
    """Modules of the plan could not be loaded; `failures` has one line for each.

    `is_fatal` says that the session cannot run without one of them, even where missing modules are allowed. `modules`
    has the error, the place and the fix of each, in the same order, if they are known.
    """

    code = "modules_missing"

    def __init__(self, failures: list[str], *, is_fatal: bool = False, modules: Sequence[ModuleFailure] = ()) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures
        self.is_fatal = is_fatal
        self.modules = tuple(modules)


def live_plan(prepared: Prepared, environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the plan with its variables expanded and default timeouts added, and a warning for each unset variable.

    `${AMPLIFIER_PYTHON}` is the Python that runs this program, for commands that need a library installed with it.
    Raises BundleError for a bundle that is only a part of others: without an orchestrator or a context.
    """
    from amplifier_foundation.settings.plan import expand_plan

    _check_complete(prepared)
    expanded = expand_plan(prepared.composed.plan, {"AMPLIFIER_PYTHON": sys.executable, **environ})
    unset = [f"{one.key}: the variable {one.name} is not set, so this is empty" for one in expanded.missing]
    plan, session = expanded.value, expanded.value.get("session")
    if isinstance(session, dict):  # the kernel reports anything else
        plan = {**plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT} | session}
    return plan, list(dict.fromkeys(unset))


def with_folders(plan: dict[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """Return a plan whose file tools and sandbox may write to these folders as well; rules decide about each file."""
    names = [str(folder) for folder in folders]
    if not names:
        return plan
    session = plan.get("session")
    tools = [_writing_to(names, entry) for entry in plan.get("tools") or []]
    if isinstance(session, dict):
        sandbox = session.get("sandbox")
        settings = dict(sandbox) if isinstance(sandbox, Mapping) else {} if sandbox is None else {"mode": sandbox}
        session = {**session, "sandbox": {**settings, "writable": [*_listed(settings.get("writable"), []), *names]}}
    return {**plan, "session": session, "tools": tools}


def _writing_to(names: list[str], entry: Any) -> Any:
    config = dict(entry.get("config") or {}) if isinstance(entry, Mapping) else {}
    if isinstance(entry, Mapping) and entry.get("module") in _FILE_TOOLS:
        config["allowed_write_paths"] = [*_listed(config.get("allowed_write_paths"), ["."]), *names]
        if config.get("allowed_read_paths") is not None:
            config["allowed_read_paths"] = [*_listed(config["allowed_read_paths"], []), *names]
    own = config.get("sandbox")
    if isinstance(own, Mapping) and own.get("writable") is not None:
        config["sandbox"] = {**own, "writable": [*_listed(own["writable"], []), *names]}
    return {**entry, "config": config} if config else entry


def _listed(value: Any, default: list[str]) -> list[Any]:
    """Return a list of texts, for which one text may stand; the default for None."""
    return default if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _check_complete(prepared: Prepared) -> None:
    session = prepared.composed.plan.get("session") or {}
    if prepared.is_made_by_app or not isinstance(session, Mapping):
        return  # the kernel reports it
    lacking = [f"session.{key}" for key in SESSION_MODULES if not session.get(key)]
    if lacking:
        from amplifier_foundation.bundles.bundle import BundleError

        raise BundleError(
            f"{prepared.composed.reference}: {' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not set, "
            "so it is not a complete bundle but a part of one: name what is missing, or include a bundle that does, "
            "such as `minimal`"
        )


# -- what a plan says; its shape is not checked yet --


def planned_budget(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that a plan sets; raises BudgetError if they are not a mapping."""
    session = plan.get("session")
    budget = session.get("budget") if isinstance(session, Mapping) else None
    if budget is None:
        return {}
    if not isinstance(budget, Mapping):
        from amplifier_foundation.usage.budget import BudgetError

        raise BudgetError(f"session.budget must be a mapping of limits such as {{usd: 1}}, got {budget!r:.100}")
    return dict(budget)


def provider_and_model(plan: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the provider with the highest priority, and the model it is configured with as `provider/model`."""
    listed = plan.get("providers")
    providers = [
        (entry, entry["config"] if isinstance(entry.get("config"), dict) else {})
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and entry.get("module")
    ]
    if not providers:
        return None, None
    first, config = min(providers, key=lambda provider: _priority(provider[1].get("priority")))
    model = config.get("default_model")
    name = str(first.get("id") or first["module"])
    return name, f"{name}/{model}" if model else None


def provider_module(plan: Mapping[str, Any], name: str | None) -> str | None:
    """Return the module of the provider of a plan that has this id or module; None if there is none."""
    for one in plan_modules(plan):
        if one.kind == "provider" and name in (one.entry.get("id"), one.module_id):
            return one.module_id
    return None


def _priority(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):  # an expanded variable may be any text
        return 100.0


def model_change(plan: Mapping[str, Any], saved: SavedSession | None) -> list[str]:
    """Return a warning if a resumed session gets another model than in its last turn.

    For a session of another program the app reports the missing record, and the model with it.
    """
    if saved is None or saved.recorded is None or not saved.metadata.get("provider"):
        return []
    before, now = (saved.metadata["provider"], saved.metadata.get("model")), provider_and_model(plan)
    if before == now:
        return []
    return [f"model: {_model_name(*before)} answered in the turn before, {_model_name(*now)} answers now"]


def _model_name(provider: Any, model: Any) -> str:
    return str(model or f"the default model of {provider}" if provider else "no model")


def wants_hash_chain(plan: Mapping[str, Any]) -> bool:
    """Return whether hooks-logging is configured to put the hash of the line before into every line of the log."""
    configs = (one.entry.get("config") for one in plan_modules(plan) if one.module_id == "hooks-logging")
    return any(isinstance(config, Mapping) and config.get("verify") is True for config in configs)


def has_own_rules(plan: Mapping[str, Any]) -> bool:
    """Return whether a plan brings permission rules."""
    hooks = plan.get("hooks")
    entries = hooks if isinstance(hooks, list) else []
    return any(isinstance(entry, Mapping) and entry.get("module") == "hooks-approval" for entry in entries)


def is_trusted(prepared: Prepared, given: GivenTrust | None = None) -> bool:
    """Return whether the user trusts the project of a session as it is now: by record, or for this run."""
    from amplifier_foundation.trust.store import TrustStore

    if given is not None and given.holds:
        return True
    return TrustStore(prepared.home).state(prepared.project).trusted


# -- loading --


async def load_modules(session: AmplifierSession, *, allow_missing: bool) -> None:
    """Initialize a session; raises ModulesMissingError, naming every module that cannot be loaded.

    `allow_missing` tolerates missing modules, except the orchestrator, the context and the provider that would answer:
    another provider never takes its place.
    """
    known = session.coordinator.module_failures
    known.clear()
    try:
        await session.initialize()
    except RuntimeError as error:
        # The kernel raises for the orchestrator and the context, and collects the failures of all other modules.
        kind = getattr(error, "module_type", None)
        if kind is None:
            raise
        entry = session_module(session.config, kind)
        found = [ModuleFailure(kind, entry, error.__cause__ or error), *await _failures_after(session, kind)]
        raise ModulesMissingError([one.text for one in found], is_fatal=True, modules=found) from error
    if not known:
        return
    found = [ModuleFailure(*one) for one in known]
    known.clear()
    wanted = provider_and_model(session.config)[0]
    lost_provider = any(
        one.kind == "provider" and wanted == (one.entry.get("instance_id") or one.entry["module"]) for one in found
    )
    if lost_provider or not allow_missing:
        raise ModulesMissingError([one.text for one in found], is_fatal=lost_provider, modules=found)
    for one in found:
        logger.warning("Running without %s", "\n    ".join((one.text, *one.hints)), exc_info=one.error)


async def _failures_after(session: AmplifierSession, failed_kind: str) -> list[ModuleFailure]:
    """Return which modules behind the orchestrator or context that failed cannot be loaded either.

    The kernel stopped there. Nothing is mounted here, so that a module that fails in `mount()` is not found.
    """
    modules = list(plan_modules(session.config))
    first = 1 + next((place for place, one in enumerate(modules) if one.kind == failed_kind), -1)
    failures: list[ModuleFailure] = []
    for one in modules[first:]:
        try:
            await session.loader.load(
                one.module_id, dict(one.entry.get("config") or {}), one.entry.get("source"), session.coordinator
            )
        except (Exception, SystemExit) as error:  # importing a module may raise anything
            failures.append(ModuleFailure(one.kind, one.entry, error))
    return failures


# -- why a module cannot be used --

#: Errors that are faults of the code, whose text alone does not say what went wrong.
_CODE_FAULTS: Final = (LookupError, AttributeError, TypeError, NameError, ArithmeticError, AssertionError)
_MOUNT: Final = "`async def mount(coordinator, config=None)`"
#: How to fix what a check of the kernel found.
_FIXES: Final = {
    "mount_exists": f"define {_MOUNT} in the `__init__.py` of the package",
    "mount_signature": f"write {_MOUNT}",
    "tool_execute": "write `async def execute(self, input)`",
}


class ModuleFailure(NamedTuple):
    """A module that cannot be loaded or mounted."""

    kind: str
    #: Its entry in the plan.
    entry: Mapping[str, Any]
    error: BaseException

    @property
    def reason(self) -> str:
        """Why, on one line: the failed checks, or the text of the error."""
        checks = getattr(self.error, "checks", ())
        if checks:
            return "; ".join(f"{check.name}: {check.message}" for check in checks)
        has_no_source = isinstance(self.error, SourceNotFoundError) and self.error.__cause__ is not None
        text = reason(self.error.__cause__ if has_no_source and self.error.__cause__ else self.error)
        return f"{type(self.error).__name__}: {text}" if isinstance(self.error, _CODE_FAULTS) else text

    @property
    def text(self) -> str:
        return f"{self.kind} '{self.entry['module']}': {self.reason}"

    @property
    def hints(self) -> list[str]:
        """Where the module is and how to fix it; nothing for a module of the program, whose reason says that."""
        if not self.entry.get("source") and not isinstance(self.error, _CODE_FAULTS):
            return []
        place = location(self.error) or getattr(self.error, "path", None)
        fix = self._fix
        return [*([f"in {place}"] if place else []), *([f"fix: {fix}"] if fix else [])]

    @property
    def frames(self) -> list[str]:
        """The last lines of the module's own code in the traceback."""
        return frame_lines(self.error)

    @property
    def _fix(self) -> str | None:
        names = [check.name for check in getattr(self.error, "checks", ())]
        if "does not implement" in self.reason:
            return (
                f"write what is missing; `amplifier module validate {self.entry.get('source', 'PATH')}` checks it again"
            )
        if "protocol_compliance" in names:
            point = TYPE_TO_MOUNT_POINT.get(self.kind, f"{self.kind}s")
            if point == "hooks":
                return "register the handler with `coordinator.hooks.register(event, handler, name=…)`"
            how = f'await coordinator.mount("{point}", {self.kind}, name={self.kind}.name)'
            return f"call `{how}` in mount(), or return the {self.kind}"
        cause = self.error.__cause__
        if "module_importable" in names and isinstance(cause, ModuleNotFoundError):
            return f"correct the import, or add what provides '{cause.name}' to `dependencies` in its pyproject.toml"
        if "module_importable" in names:
            return "correct the code there: it runs when the module is imported"
        if names:
            return _FIXES.get(names[0])
        return "correct the code there; the log has the whole traceback" if location(self.error) else None
