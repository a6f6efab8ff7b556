"""Make the plan of a child from its parent's and the agent's, by rules alone: nothing is loaded or written.

| part | rule |
|---|---|
| tools | the parent's as its `spawn` says (`tools` instead, or without `exclude_tools`), the agent's over them |
| providers, hooks | the parent's with the agent's over them, by id |
| everything else | key by key; lists are replaced; the agent's value wins |
| agents | all the parent has, none, or those that the agent names |
| inheritance | `exclude_*` removes, `inherit_*` keeps nothing else; what the agent itself declares always stays |
| restrictions | guard hooks stay and the sandbox holds; an agent can only make them stricter (`restrictions`) |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, session_module
from amplifier_foundation.bundles.agents import UNUSABLE
from amplifier_foundation.children.capabilities import SELF
from amplifier_foundation.children.errors import AgentUnknownError, AgentUnusableError, SpawnError
from amplifier_foundation.children.restrictions import GUARDS, rename_rivals, restrict
from amplifier_foundation.merge import OVERLAY, copied, merge, module_key

#: The parts of an agent that are laid over its parent's plan; the rest describes it.
_PLANNED: Final = ("session", *MODULE_SECTIONS, "spawn", "orchestrator")
#: Keys of `session.metadata` that identify a session, so that a child must not inherit them.
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

    `above` are the plans of further ancestors, which count for tools that the parent lacks. Raises AgentUnusableError
    for an agent whose parts have the wrong shape, SpawnError for such an inheritance.
    """
    _check_agent(agent)
    if agent.get("hooks"):
        agent = {**agent, "hooks": rename_rivals(agent["hooks"], parent.get("hooks"))}
    base = {key: value for key, value in parent.items() if key != "agents"}
    base["tools"] = _inheritable_tools(parent)
    overlay = {key: agent[key] for key in _PLANNED if agent.get(key) is not None}
    plan: Plan = merge(base, overlay, OVERLAY)
    plan["agents"] = visible_agents(parent.get("agents"), agent.get("agents"))
    _inherit(plan, "tools", agent, tool_inheritance or {}, ())
    _inherit(plan, "hooks", agent, hook_inheritance or {}, GUARDS)
    restrict(plan, parent, above)
    if orchestrator_config:
        configure_orchestrator(plan, orchestrator_config)
    if metadata:
        session = plan.setdefault("session", {})
        inherited = {key: value for key, value in _mapping(session.get("metadata")).items() if key not in _IDENTITY}
        session["metadata"] = {**inherited, **copied(metadata)}
    return {key: value for key, value in plan.items() if value not in ({}, [], None)}


def visible_agents(known: Any, access: Any) -> dict[str, Any]:
    """Return the agents that a child may call: none, those in a list of names, or all of its parent's."""
    agents = {name: copied(agent) for name, agent in _mapping(known).items()}
    if access == "none":
        return {}
    if isinstance(access, list):
        return {name: agent for name, agent in agents.items() if name in access}
    return agents


def configure_orchestrator(plan: Plan, config: Mapping[str, Any]) -> None:
    """Lay settings over those of the orchestrator, in whichever form the plan names it."""
    session = plan.setdefault("session", {})
    if not isinstance(session.get("orchestrator"), str | dict):
        return  # the kernel reports what is wrong with it
    entry = session_module(plan, "orchestrator")
    plan.pop("orchestrator", None)
    session.pop("orchestrator_source", None)
    configured = {**entry, "config": merge(_mapping(entry.get("config")), config, OVERLAY)}
    session["orchestrator"] = {key: value for key, value in configured.items() if value is not None}


class AgentRoster:
    """The agents that a running session can call: those of its bundle, and those added since.

    A definition that has not changed since the session began is returned as its bundle wrote it, with the names of
    variables instead of their values, so that the metadata of a child hold no keys.
    """

    def __init__(self, composed: Mapping[str, Any], live: Mapping[str, Any], at_start: Mapping[str, Any]) -> None:
        """Take the plan as composed, the plan as the session has it now, and the agents that it began with."""
        self._written = dict(_agents(composed))
        self._live = live
        self._at_start = at_start

    def all(self) -> dict[str, Any]:
        """Return the current agents by name."""
        return {name: self._as_written(name, agent) for name, agent in _agents(self._live).items()}

    def definition(self, name: str, given: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the definition of an agent, empty for `self`; `given` are the agents as the caller knows them.

        Raises AgentUnknownError and AgentUnusableError.
        """
        if name == SELF:
            return {}
        live = _agents(self._live)
        known = {**live, **(given if isinstance(given, Mapping) else {})}
        if name not in known:
            raise AgentUnknownError(name, sorted([*map(str, known), SELF]))
        agent = self._as_written(name, live[name]) if known[name] == live.get(name) else known[name]
        if not isinstance(agent, Mapping):
            raise AgentUnusableError(f"the agent {name!r} must be a mapping, got {type(agent).__name__}")
        if agent.get(UNUSABLE):
            raise AgentUnusableError(f"the agent {name!r} cannot be used: {agent[UNUSABLE]}")
        instruction = agent.get("instruction")
        if instruction is not None and not isinstance(instruction, str):
            raise AgentUnusableError(f"the instruction of the agent {name!r} must be a text, got {instruction!r}")
        return agent

    def _as_written(self, name: str, agent: Any) -> Any:
        return self._written[name] if name in self._written and self._at_start.get(name) == agent else agent


def _agents(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    agents = plan.get("agents") if isinstance(plan, Mapping) else None
    return agents if isinstance(agents, Mapping) else {}


def _check_agent(agent: Mapping[str, Any]) -> None:
    for key in ("session", "spawn"):
        if agent.get(key) is not None and not isinstance(agent[key], Mapping):
            raise AgentUnusableError(f"the agent's {key!r} must be a mapping, got {agent[key]!r}")
    for key in MODULE_SECTIONS:
        entries = agent.get(key)
        if entries is not None and (not isinstance(entries, list) or not all(map(module_key, entries))):
            raise AgentUnusableError(f"the agent's {key!r} must be a list of modules, got {entries!r}")
        for entry in entries or ():
            if "${" in f"{entry.get('module')} {entry.get('id')}":  # what it is laid over would be unknown
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


def _inheritable_tools(parent: Mapping[str, Any]) -> list[Any]:
    policy, tools = _mapping(parent.get("spawn")), _list(parent.get("tools"))
    if isinstance(policy.get("tools"), list):
        return copied(policy["tools"])  # type: ignore[no-any-return]  # a copy of a list
    excluded = _list(policy.get("exclude_tools"))
    return [entry for entry in tools if not _is_named(entry, excluded)]


def _inherit(
    plan: Plan, section: str, agent: Mapping[str, Any], wish: Mapping[str, Any], always: Sequence[str]
) -> None:
    """Remove what the caller does not pass on; what the agent declares stays."""
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
