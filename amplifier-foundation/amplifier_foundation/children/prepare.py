"""Prepare a child session: its plan, prompt, metadata, and what it gets from its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.children.capabilities import (
    BY_SETTINGS,
    MODEL_ROLES,
    SELF,
    SpawnRequest,
    first_candidates,
    preference_of,
)
from amplifier_foundation.children.errors import TooDeepError
from amplifier_foundation.children.model_roles import ModelRoles, Preferred, names_provider, with_preference
from amplifier_foundation.children.plan import child_plan, configure_orchestrator
from amplifier_foundation.children.restrictions import restrict
from amplifier_foundation.children.results import own_span
from amplifier_foundation.merge import copied
from amplifier_foundation.prompt.access import ReadDeniedError
from amplifier_foundation.prompt.mention_resolver import MentionError
from amplifier_foundation.sessions.origin import ChildFacts, Origin, UserChanges
from amplifier_foundation.sessions.plan import has_own_rules
from amplifier_foundation.trust.server_credentials import without_server_values
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.prompt.access import Origin as TextOrigin
    from amplifier_foundation.prompt.access import PromptAccess
    from amplifier_foundation.sessions.runtime import SessionRuntime

#: How deep a tree may be when its budget does not limit the depth.
MAX_DEPTH: Final = 8
#: How long a provider may take to list its models.
_LIST_SECONDS: Final = 5.0
#: Capabilities that a child shares with its parent.
_SHARED: Final = ("session.routing", "session.modes", "runtime_skill_overlay")


class ChildPreparation:
    """Prepare the children of one session."""

    def __init__(self, parent: SessionRuntime, roles: ModelRoles) -> None:
        self._parent, self._roles = parent, roles

    def depth(self) -> int:
        """Return the depth of a child of this session; raises TooDeepError when that is too deep."""
        above = self._parent.origin.facts.depth if self._parent.origin is not None else 0
        if above >= MAX_DEPTH and not self._parent.budget.limits_depth:
            raise TooDeepError(
                f"this session has {above} ancestors already: do the work here, or allow more in session.budget.depth"
            )
        return above + 1

    def self_depth(self, request: SpawnRequest) -> int:
        """Return how often the child's ancestors have delegated to themselves."""
        above = self._parent.origin.self_delegation_depth if self._parent.origin is not None else 0
        return max(request.self_delegation_depth, above + 1) if request.agent == SELF else request.self_delegation_depth

    async def prepared(
        self, request: SpawnRequest, agent: Mapping[str, Any], agents: Mapping[str, Any]
    ) -> tuple[Prepared, tuple[str, ...], bool]:
        """Return what the child is made of, warnings for the caller, and whether a preference chose its provider.

        Raises AgentUnusableError and SpawnError as `child_plan` does.
        """
        parent = self._parent.prepared
        metadata = {
            **request.session_metadata,
            "agent_name": request.agent,
            "parent_id": self._parent.session_id,
            "tool_call_id": request.tool_call_id,
            "parallel_group_id": request.parallel_group_id,
        }
        plan = child_plan(
            {**parent.composed.plan, "agents": agents},
            agent,
            tool_inheritance=request.tool_inheritance,
            hook_inheritance=request.hook_inheritance,
            orchestrator_config=request.orchestrator_config,
            metadata={key: value for key, value in metadata.items() if value is not None},
            above=self._parent.rules,
        )
        preferred = await self._preferred(plan, request, agent)
        composed, warnings = replace(parent.composed, plan=preferred.plan), preferred.warnings
        if agent.get("instruction"):
            access, instruction = self._parent.prompt.access, str(agent["instruction"])
            origin = access.origin_of_text(instruction)
            files, missing = await asyncio.to_thread(agent_context, agent.get("context"), access, origin)
            composed = replace(composed, instruction=instruction, context=files)
            warnings = (*warnings, *missing)
        return replace(parent, composed=composed, is_recorded=False), warnings, preferred.provider is not None

    async def given(self, request: SpawnRequest, given: Prepared) -> tuple[Prepared, tuple[str, ...], bool]:
        """Return the same for a child whose parts an app has prepared; its parent's restrictions hold for it."""
        plan = copied(given.composed.plan)
        restrict(plan, self._parent.prepared.composed.plan, self._parent.rules)
        if request.orchestrator_config:
            configure_orchestrator(plan, request.orchestrator_config)
        preferred = await self._preferred(plan, request, {})
        composed = replace(given.composed, plan=preferred.plan)
        return replace(given, composed=composed), preferred.warnings, preferred.provider is not None

    def metadata(
        self, facts: ChildFacts, request: SpawnRequest, agent: Mapping[str, Any], prepared: Prepared, task: str
    ) -> dict[str, Any]:
        """Return the keys of a child's metadata that sessions without a parent do not have."""
        composed = prepared.composed
        return {
            "parent_id": facts.parent_id,
            "trace_id": self._parent.root_id,
            "agent_name": facts.agent,
            "child_span": own_span(facts.session_id),
            "depth": facts.depth,
            "tool_call_id": facts.tool_call_id,
            "parallel_group_id": facts.parallel_group_id,
            "task_sha256": task,
            "self_delegation_depth": self.self_depth(request),
            "agent_overlay": without_server_values(agent),
            "config": without_server_values(_with_agent_names(composed.plan)),
            "bundle_context": {
                "module_paths": {name: str(path) for name, path in prepared.modules.items()},
                "mention_mappings": dict(composed.namespaces),
            },
        }

    def origin(
        self,
        facts: ChildFacts,
        prepared: Prepared,
        agent: Any,
        self_depth: int,
        metadata: Mapping[str, Any],
        *,
        is_provider_chosen: bool = False,
    ) -> Origin:
        """Return what the child gets from its parent; the rules of its agent, if any, hold for it as well."""
        parent = self._parent
        coordinator = parent.session.coordinator
        shared = {name: coordinator.get_capability(name) for name in _SHARED}
        working_dir = coordinator.get_capability("session.working_dir")
        root_folder = parent.origin.root_folder if parent.origin is not None else parent.folder
        rules, permissions = parent.rules, (parent.permissions, *parent.more_permissions)
        if isinstance(agent, Mapping) and has_own_rules(agent):
            from amplifier_foundation.sessions.permissions import SessionPermissions

            own = SessionPermissions.of(
                prepared, root_folder, trust=parent.given_trust, locate=parent.prompt.resolver.resolve, run=parent.run
            )
            rules, permissions = (*rules, prepared.composed.plan), (*permissions, own)
        above = parent.origin.changes if parent.origin is not None else None
        changes = UserChanges.since(parent.mounted, coordinator, above)
        return Origin(
            facts,
            folder=parent.folder.parent / facts.session_id,
            root_folder=root_folder,
            root_id=parent.root_id,
            metadata={key: value for key, value in metadata.items() if value is not None},
            working_dir=working_dir if isinstance(working_dir, str) else None,
            self_delegation_depth=self_depth,
            secrets=parent.secrets,
            rules=rules,
            changes=changes.without_model_choice() if is_provider_chosen else changes,
            capabilities={name: value for name, value in shared.items() if value is not None},
            permissions=permissions,
        )

    async def _preferred(self, plan: dict[str, Any], request: SpawnRequest, agent: Mapping[str, Any]) -> Preferred:
        """Return the plan with the provider that the caller prefers, else with the one that the agent prefers."""
        unknown: list[str] = []
        for wished, role in (
            (request.provider_preferences, request.model_role),
            (agent.get("provider_preferences"), agent.get("model_role")),
        ):
            preferences: Sequence[Mapping[str, Any]] = wished if isinstance(wished, list | tuple) and wished else ()
            if not preferences and isinstance(role, str | list | tuple) and role:
                preferences = await self._of_role(role, unknown)
            if preferences:
                preferred = await with_preference(plan, preferences, self._models)
                return preferred._replace(warnings=(*unknown, *preferred.warnings))
        return Preferred(plan, warnings=tuple(unknown))

    async def _of_role(self, role: str | Sequence[str], warnings: list[str]) -> Sequence[Mapping[str, Any]]:
        """Return the models of a role, or of the first role of a list that has some, and warn of unknown roles.

        A module may have put a resolver of its own in place of the settings.
        """
        resolver = self._parent.session.coordinator.get_capability(MODEL_ROLES)
        is_own = getattr(resolver, "name", None) == BY_SETTINGS
        if not is_own and callable(resolve := getattr(resolver, "resolve", None)):
            try:
                return [preference_of(one) for one in await maybe_await(resolve(role)) or ()]
            except Exception as error:  # of the module; the role is a wish, and the task is not
                warnings.append(f"model_role {role!r:.100} cannot be resolved: {type(error).__name__}: {error}")
                return ()
        known = self._roles.known_roles
        warnings += [
            f"model_role {one!r:.100} is unknown and ignored; known roles: {', '.join(known)}"
            for one in ([role] if isinstance(role, str) else role)
            if one not in known
        ]
        return first_candidates(self._roles, role)

    async def _models(self, entry: Mapping[str, Any]) -> Sequence[str]:
        """Return the models of a provider of this session; raises LookupError when it is not mounted."""
        providers = self._parent.session.coordinator.get("providers") or {}
        for name, provider in providers.items():
            if names_provider(entry, name):
                async with asyncio.timeout(_LIST_SECONDS):
                    models = await maybe_await(provider.list_models())
                    return [str(getattr(model, "id", model)) for model in models]
        raise LookupError("it is not mounted")


def agent_context(declared: Any, access: PromptAccess, origin: TextOrigin) -> tuple[dict[str, str], list[str]]:
    """Return the files of an agent's `context` by name, as absolute paths, and a warning for each that is left out.

    `origin` is that of the agent's instruction: an agent may name no file that its instruction may not mention.
    """
    files: dict[str, str] = {}
    warnings: list[str] = []
    if not isinstance(declared, Mapping):
        return files, warnings
    included = declared.get("include")
    named = {str(name): str(name) for name in (included if isinstance(included, list) else ())}
    named |= {str(name): str(path) for name, path in declared.items() if name != "include"}
    for name, reference in named.items():
        try:
            path = access.resolver.locate(reference if reference.startswith("@") else f"@{reference}").path
            access.check(path, origin)
        except ReadDeniedError as error:
            warnings.append(f"context file {reference!r} of the agent is left out: {error}")
        except MentionError:
            warnings.append(f"context file {reference!r} of the agent does not exist")
        else:
            files[name.removeprefix("@")] = str(path)
    return files, warnings


def _with_agent_names(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan for the metadata: with the names and descriptions of its agents alone.

    Metadata are written after every turn; the record of the session has the whole plan.
    """
    agents = plan.get("agents")
    if not isinstance(agents, Mapping):
        return dict(plan)
    return {
        **plan,
        "agents": {
            name: {key: agent[key] for key in ("name", "description") if key in agent}
            if isinstance(agent, Mapping)
            else {}
            for name, agent in agents.items()
        },
    }
