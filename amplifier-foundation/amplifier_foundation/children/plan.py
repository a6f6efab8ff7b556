"""Make the plan of a child from its parent's and the agent's, by rules alone: nothing is loaded, asked or written.

| part | rule |
|---|---|
| tools | the parent's as its `spawn` says (`tools` instead, or without `exclude_tools`), the agent's over them |
| providers, hooks | the parent's with the agent's over them, by id |
| everything else | key by key, lists replaced, the agent's value counts |
| agents | all the parent has, none, or those that the agent names |
| inheritance | `exclude_*` takes away, `inherit_*` keeps nothing else; what the agent itself declares always stays |
| guards | hooks that watch over a session or record it stay, and an agent can only make them stricter (`guards`) |
| sandbox | a child may ask for a tighter one, never for a looser one (`tight_sandbox`) |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.children.errors import AgentUnusableError, SpawnError
from amplifier_foundation.children.guards import GUARDS, keep_guards, set_apart
from amplifier_foundation.children.tight_sandbox import tighten_sandbox
from amplifier_foundation.merge import OVERLAY, copied, merge, module_key

#: The parts of an agent that are laid over its parent's plan; the rest says who it is.
_PLANNED: Final = ("session", *MODULE_SECTIONS, "spawn", "orchestrator")
#: What says who a session is, and so never who its child is.
_IDENTITY: Final = ("agent_name", "parent_id", "tool_call_id", "parallel_group_id")

Plan = dict[str, Any]


def child_plan(
    parent: Mapping[str, Any],
    agent: Mapping[str, Any],
    *,
    tool_inheritance: Mapping[str, Any] | None = None,
    hook_inheritance: Mapping[str, Any] | None = None,
    orchestrator_config: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    above: Sequence[Mapping[str, Any]] = (),
) -> Plan:
    """Return the plan of a child; nothing of it is shared with what goes in.

    `above` are plans further up, which count for tools that the parent has not. Raises AgentUnusableError for an agent
    whose parts have the wrong shape, SpawnError for an inheritance that does.
    """
    _check_agent(agent)
    if agent.get("hooks"):
        agent = {**agent, "hooks": set_apart(agent["hooks"], parent.get("hooks"))}
    base = {key: value for key, value in parent.items() if key != "agents"}
    base["tools"] = _passed_on(parent)
    overlay = {key: agent[key] for key in _PLANNED if agent.get(key) is not None}
    plan: Plan = merge(base, overlay, OVERLAY)
    plan["agents"] = visible_agents(parent.get("agents"), agent.get("agents"))
    _inherit(plan, "tools", agent, tool_inheritance or {}, ())
    _inherit(plan, "hooks", agent, hook_inheritance or {}, GUARDS)
    tighten(plan, parent, above)
    if orchestrator_config:
        configure_orchestrator(plan, orchestrator_config)
    if metadata:
        session = plan.setdefault("session", {})
        inherited = {key: value for key, value in _mapping(session.get("metadata")).items() if key not in _IDENTITY}
        session["metadata"] = {**inherited, **copied(metadata)}
    return {key: value for key, value in plan.items() if value not in ({}, [], None)}


def tighten(plan: Plan, parent: Mapping[str, Any], above: Sequence[Mapping[str, Any]] = ()) -> None:
    """Let nothing that guards the parent be looser in the plan of its child, or missing there."""
    keep_guards(plan, parent.get("hooks"))
    tighten_sandbox(plan, parent, above)


def visible_agents(known: Any, access: Any) -> dict[str, Any]:
    """Return the agents that a child may call: `none`, a list of names, or all that its parent knows."""
    agents = {name: copied(agent) for name, agent in _mapping(known).items()}
    if access == "none":
        return {}
    if isinstance(access, list):
        return {name: agent for name, agent in agents.items() if name in access}
    return agents


def configure_orchestrator(plan: Plan, config: Mapping[str, Any]) -> None:
    """Lay settings over those of the loop, whichever way the plan names it."""
    session = plan.setdefault("session", {})
    loop = session.get("orchestrator")
    if isinstance(loop, str):
        beside = plan.pop("orchestrator", None)
        loop = {"module": loop, "config": copied(_mapping(_mapping(beside).get("config")))}
        if source := session.pop("orchestrator_source", None):
            loop["source"] = source
    if not isinstance(loop, dict):
        return  # the kernel says what is wrong with it
    session["orchestrator"] = {**loop, "config": merge(_mapping(loop.get("config")), config, OVERLAY)}


def _check_agent(agent: Mapping[str, Any]) -> None:
    for key in ("session", "spawn"):
        if agent.get(key) is not None and not isinstance(agent[key], Mapping):
            raise AgentUnusableError(f"the agent's {key!r} must be a mapping, got {agent[key]!r}")
    for key in MODULE_SECTIONS:
        entries = agent.get(key)
        if entries is not None and (not isinstance(entries, list) or not all(map(module_key, entries))):
            raise AgentUnusableError(f"the agent's {key!r} must be a list of modules, got {entries!r}")
        for entry in entries or ():
            if "${" in f"{entry.get('module')} {entry.get('id')}":  # nobody could tell what it would be laid over
                raise AgentUnusableError(f"the agent's {key!r} must name modules without variables, got {entry!r}")
    access = agent.get("agents")
    if access is not None and not isinstance(access, list | Mapping) and access not in ("all", "none"):
        raise AgentUnusableError(f"the agent's 'agents' must be 'all', 'none' or a list of names, got {access!r}")
    preferences = agent.get("provider_preferences")
    if preferences is not None and (not isinstance(preferences, list) or not all(map(_is_preference, preferences))):
        wanted = "a list of {provider, model?, config?}"
        raise AgentUnusableError(f"the agent's 'provider_preferences' must be {wanted}, got {preferences!r}")


def _is_preference(entry: Any) -> bool:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("provider"), str):
        return False
    return isinstance(entry.get("model"), str | None) and isinstance(entry.get("config"), Mapping | None)


def _passed_on(parent: Mapping[str, Any]) -> list[Any]:
    """Return the tools that a plan passes on to children."""
    policy, tools = _mapping(parent.get("spawn")), _list(parent.get("tools"))
    if isinstance(policy.get("tools"), list):
        return copied(policy["tools"])  # type: ignore[no-any-return]  # a copy of a list
    excluded = _list(policy.get("exclude_tools"))
    return [entry for entry in tools if not _is_named(entry, excluded)]


def _inherit(
    plan: Plan, section: str, agent: Mapping[str, Any], wish: Mapping[str, Any], always: Sequence[str]
) -> None:
    """Take away what the caller does not pass on; what the agent declares stays."""
    exclude, inherit = wish.get(f"exclude_{section}"), wish.get(f"inherit_{section}")
    for name, value in wish.items():
        if name not in (f"exclude_{section}", f"inherit_{section}"):
            raise SpawnError(f"{section} are passed on by 'exclude_{section}' or 'inherit_{section}', not {name!r}")
        if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise SpawnError(f"{name} must be a list of module ids, got {value!r}")
    if exclude is None and inherit is None:
        return
    declared = {module_key(entry) for entry in _list(agent.get(section))}

    def stays(entry: Any) -> bool:
        if module_key(entry) in declared or _is_named(entry, always):
            return True
        return not _is_named(entry, exclude or ()) and (inherit is None or _is_named(entry, inherit))

    plan[section] = [entry for entry in _list(plan.get(section)) if stays(entry)]


def _is_named(entry: Any, names: Sequence[Any]) -> bool:
    return isinstance(entry, Mapping) and (entry.get("module") in names or module_key(entry) in names)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
