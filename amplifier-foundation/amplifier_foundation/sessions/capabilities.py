"""The capabilities that a session offers to its modules, registered before the first of them is mounted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amplifier_foundation.plan.project_files import control_files_of
from amplifier_foundation.policy.modes import READ_ONLY
from amplifier_foundation.sessions.plan import is_trusted

if TYPE_CHECKING:
    from amplifier_foundation.sessions.runtime import SessionRuntime


def capabilities_of(runtime: SessionRuntime) -> dict[str, Any]:
    """Return the capabilities of a session by name; what few sessions need is created on first use."""
    prepared, origin = runtime.prepared, runtime.origin
    return {
        "session.working_dir": origin.working_dir if origin and origin.working_dir else str(prepared.project),
        "session.dir": runtime.folder,
        "amplifier.home": prepared.home.path,
        "session.control_files": tuple(str(path) for path in control_files_of(prepared)),
        "bundle_package_paths": [str(path) for path in prepared.package_paths],
        "mention_resolver": runtime.prompt.resolver,
        "mention_deduplicator": runtime.prompt.deduplicator,
        "prompt.denied": lambda path, root: denied_to_prompt(runtime, path, root),
        "session.naming": Lazy(lambda: SessionNaming(runtime)),
        "session.checkpoint": Lazy(lambda: runtime.checkpoints),
        "policy.hidden": lambda tool: hidden_by_all(runtime, tool),
        "session.is_read_only": lambda: runtime.permission_mode == READ_ONLY,
        "approval.is_remembered": runtime.is_allowed_by_person,
        "project.is_trusted": lambda: is_place_trusted(runtime),
        "plan.is_trusted": lambda module: is_part_trusted(runtime, module),
        "plan.is_hook_trusted": lambda module, config: is_hook_trusted(runtime, module, config),
        "plan.is_hook_of_user": lambda module, config: is_hook_of_user(runtime, module, config),
        # Absent for 0, as published.
        **({"self_delegation_depth": depth} if (depth := origin.self_delegation_depth if origin else 0) else {}),
        **(origin.capabilities if origin else {}),
    }


def is_place_trusted(runtime: SessionRuntime) -> bool:
    """Return whether the user trusts the folder that a session works in."""
    origin, prepared = runtime.origin, runtime.prepared
    is_elsewhere = origin is not None and origin.working_dir not in (None, str(prepared.project))
    return not is_elsewhere and is_trusted(prepared, runtime.given_trust)


def is_part_trusted(runtime: SessionRuntime, module: str) -> bool:
    """Return whether only the user, the product or the app configured a module of the plan."""
    from amplifier_foundation.plan.config_trust import adds_nothing, is_config_trusted

    overlay = runtime.origin.metadata.get("agent_overlay") if runtime.origin is not None else None
    trusted = is_trusted(runtime.prepared, runtime.given_trust)
    is_judged = not trusted and not runtime.prepared.is_made_by_app and runtime.origin is not None
    # This plan includes what the agents of parent sessions added, not only the session's own definition.
    if is_judged and not (runtime.rules and adds_nothing(runtime.prepared.composed.plan, runtime.rules[0], module)):
        return False
    return is_config_trusted(runtime.prepared, module, is_trusted=trusted, overlay=overlay)


def is_hook_trusted(runtime: SessionRuntime, module: str, config: Any) -> bool:
    """Return the same for one hook of a module, by its config: what agents add beside it does not count."""
    from amplifier_foundation.plan.config_trust import is_config_trusted

    if runtime.origin is None or not runtime.rules or is_part_trusted(runtime, module):
        return is_part_trusted(runtime, module)
    return _is_hook_of_root(runtime, module, config) and is_config_trusted(runtime.prepared, module, is_trusted=False)


def is_hook_of_user(runtime: SessionRuntime, module: str, config: Any) -> bool:
    """Return whether neither the project nor an agent, which may be the project's, configured a hook.

    Unlike trust, this is about its source: the hooks of a trusted project run, with the permissions of its commands.
    """
    from amplifier_foundation.plan.config_trust import adds_nothing, is_config_of_user

    prepared = runtime.prepared
    if runtime.origin is not None and not prepared.is_made_by_app:
        is_added = not runtime.rules or not adds_nothing(prepared.composed.plan, runtime.rules[0], module)
        if is_added and not _is_hook_of_root(runtime, module, config):
            return False
    return is_config_of_user(prepared, module)


def _is_hook_of_root(runtime: SessionRuntime, module: str, config: Any) -> bool:
    """Return whether the root session's plan has the hook of a module with this config, too."""
    if not runtime.rules:
        return False
    planned, live = runtime.prepared.composed.plan.get("hooks"), runtime.session.config.get("hooks")
    meant = [
        entry
        for entry, filled in zip(planned or (), live or (), strict=False)
        if filled.get("module") == module and (filled.get("config") or {}) == (config or {})
    ]
    return bool(meant) and all(entry in (runtime.rules[0].get("hooks") or ()) for entry in meant)


def denied_to_prompt(runtime: SessionRuntime, path: str, root: str) -> str | None:
    """Return why a module must not give a file to the model, None if it may.

    `root` is the folder of the text that mentions the file, such as a skill: files below it need no rule.
    """
    from pathlib import Path

    from amplifier_foundation.prompt.access import Origin
    from amplifier_foundation.prompt.mention_resolver import MentionError

    try:
        runtime.prompt.access.check(Path(path), Origin("bundle", Path(root)))
    except MentionError as error:
        return str(error)
    return None


def hidden_by_all(runtime: SessionRuntime, tool: str) -> Callable[[str], bool] | None:
    """Return a predicate for the paths that any rules hide from a tool; None if no rule hides one."""
    known = [one.current.hidden(tool) for one in (runtime.permissions, *runtime.more_permissions)]
    hidden = [is_hidden for is_hidden in known if is_hidden is not None]
    if len(hidden) < 2:
        return hidden[0] if hidden else None
    return lambda place: any(is_hidden(place) for is_hidden in hidden)


class SessionNaming:
    """`session.naming`: what a session is called, for modules that name it."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    def facts(self) -> dict[str, Any]:
        """Return the metadata of the session: `turn_count`, the running turn included, `name` and `description`."""
        from amplifier_foundation.sessions.metadata import load_metadata

        return {**load_metadata(self._runtime.folder).data, "turn_count": self._runtime.turns}

    def set(self, name: str | None, description: str) -> str | None:
        """Set name and description, and return the name: numbered if another session of the project has it already.

        Without a name, only the description is set. Raises SessionNameError for an invalid name, and OSError and
        FoundationError if the metadata cannot be written.
        """
        from datetime import UTC, datetime

        from amplifier_foundation.sessions.metadata import update_metadata
        from amplifier_foundation.sessions.store import LONGEST_NAME, SessionNameTakenError, SessionStore

        given = name
        for number in range(2, 100):
            try:
                if given is not None:
                    given = SessionStore(self._runtime.prepared.home).rename(str(self._runtime.folder), given).name
                break
            except SessionNameTakenError:
                given = f"{str(name)[: LONGEST_NAME - 3].rstrip()} {number}"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        changes = {"description": description, "description_updated_at": now}
        update_metadata(self._runtime.folder, changes, is_activity=False)
        return given


class Lazy:
    """Create the wrapped object on first attribute access."""

    def __init__(self, create: Callable[[], Any]) -> None:
        self._create = create

    def __getattr__(self, name: str) -> Any:
        return getattr(self._create(), name)
