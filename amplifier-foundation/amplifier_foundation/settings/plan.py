"""Lay settings over the plan of a bundle. Variables stay as written, so that a recorded plan holds no secrets.

| where a value comes from, the weakest first | source | config |
|---|---|---|
| the bundle | yes | yes |
| `sources.modules.<module>` | yes | |
| `overrides.<module>` | yes | yes |
| `modules.<section>` | yes | yes |
| `config.providers` | yes | yes |

The first three also hold for modules inside agents. Mappings are merged, lists replaced; the path lists of
tool-filesystem are joined: a setting never takes a denied path away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.merge import ANY, OVERLAY, MergePolicy, copied, join_lists, merge, merge_modules
from amplifier_foundation.settings.variables import Expanded, MissingVariable, expand

_FILESYSTEM: Final = "tool-filesystem"
_PATH_LISTS: Final = ("allowed_read_paths", "allowed_write_paths", "denied_write_paths")
#: As an agent is laid over its parent, but for the path lists.
PLAN: Final = MergePolicy(
    "plan", "replace", OVERLAY.modules, tuple(("tools", ANY, "config", name) for name in _PATH_LISTS)
)
#: The same for one module by itself.
_ENTRY: Final = MergePolicy("plan entry", "replace", united=tuple(("config", name) for name in _PATH_LISTS))
#: What of an agent configures modules; the rest is text for models, which variables of this process must not reach.
_AGENT_PARTS: Final = ("session", "provider_preferences", *MODULE_SECTIONS)


def apply_settings(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan with merged settings (`Settings.data`) laid over it; neither is changed."""
    changed: dict[str, Any] = copied(plan)
    added = _added(settings)
    for section, entries in added.items():
        known = [{key: entry[key] for key in ("id", "module") if key in entry} for entry in entries]
        changed[section] = merge_modules(changed.get(section) or [], known, PLAN, (section,))
    _override(changed, settings)
    for agent in (changed.get("agents") or {}).values():
        if isinstance(agent, dict):
            _override(agent, settings)
    for section, entries in added.items():
        changed[section] = merge_modules(changed[section], entries, PLAN, (section,))
    for part in (changed, *(changed.get("agents") or {}).values()):
        _name_instances(part)
    _allow_project(changed)
    return changed


def expand_plan(plan: Mapping[str, Any], environ: Mapping[str, str]) -> Expanded:
    """Return the plan with variables in place, and which are not set. Instructions of agents stay as they are."""
    missing: list[MissingVariable] = []
    expanded: dict[str, Any] = {}
    for key, part in plan.items():
        if key == "agents" and isinstance(part, Mapping):
            expanded[key] = {name: _expand_agent(name, agent, environ, missing) for name, agent in part.items()}
        else:
            expanded[key] = _expand(part, environ, (key,), missing)
    return Expanded(expanded, missing)


def _added(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the module entries of settings by section, those of `config.providers` on top."""
    modules = settings.get("modules") or {}
    found = {section: list(modules.get(section) or []) for section in MODULE_SECTIONS}
    providers = (settings.get("config") or {}).get("providers") or []
    found["providers"] = merge_modules(found["providers"], providers, PLAN, ("providers",))
    return {section: entries for section, entries in found.items() if entries}


def _override(part: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Lay sources and overrides over every module of a plan, or of an agent."""
    session = part.get("session")
    if isinstance(session, dict):
        for kind in SESSION_MODULES:
            _override_single(part, session, kind, settings)
    for section in MODULE_SECTIONS:
        if isinstance(part.get(section), list):
            part[section] = [_overridden(entry, settings) for entry in part[section]]


def _override_single(part: dict[str, Any], session: dict[str, Any], kind: str, settings: Mapping[str, Any]) -> None:
    """Lay overrides over the orchestrator or context, which may be given by its id alone."""
    spec = session.get(kind)
    if isinstance(spec, dict):
        session[kind] = _overridden(spec, settings)
    elif isinstance(spec, str) and _override_of(spec, settings):
        beside = part.get(kind)
        entry: dict[str, Any] = {"module": spec}
        if session.get(f"{kind}_source"):
            entry["source"] = session.pop(f"{kind}_source")
        if isinstance(beside, Mapping) and beside.get("config"):
            entry["config"] = beside["config"]  # the kernel reads it only beside an id
        session[kind] = _overridden(entry, settings)


def _overridden(entry: Any, settings: Mapping[str, Any]) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return merge(entry, _override_of(entry.get("module"), settings), _ENTRY)


def _override_of(module: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings say about a module wherever it stands."""
    if not isinstance(module, str):
        return {}
    source = ((settings.get("sources") or {}).get("modules") or {}).get(module)
    override = (settings.get("overrides") or {}).get(module) or {}
    return {**({"source": source} if source else {}), **{key: value for key, value in override.items() if value}}


def _name_instances(part: Any) -> None:
    """Copy `id` to the name by which the kernel tells two providers of one module apart."""
    for entry in (part.get("providers") or []) if isinstance(part, dict) else []:
        if isinstance(entry, dict) and entry.get("id"):
            entry.setdefault("instance_id", entry["id"])


def _allow_project(plan: dict[str, Any]) -> None:
    """Let the file tool of the session write in the project. Agents may have been given less on purpose."""
    for entry in plan.get("tools") or []:
        if isinstance(entry, dict) and entry.get("module") == _FILESYSTEM:
            config = entry["config"] = dict(entry.get("config") or {})
            config["allowed_write_paths"] = join_lists(list(config.get("allowed_write_paths") or []), ["."])


def _expand_agent(name: str, agent: Any, environ: Mapping[str, str], missing: list[MissingVariable]) -> Any:
    if not isinstance(agent, Mapping):
        return agent
    return {
        key: _expand(value, environ, ("agents", name, key), missing) if key in _AGENT_PARTS else copied(value)
        for key, value in agent.items()
    }


def _expand(value: Any, environ: Mapping[str, str], at: tuple[str, ...], missing: list[MissingVariable]) -> Any:
    expanded = expand(value, environ, at)
    missing += expanded.missing
    return expanded.value
