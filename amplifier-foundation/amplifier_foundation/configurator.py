"""Take tools, providers, hooks, agents, context and behaviors out of a running session, and put them back.

configurator = SessionConfigurator(session, prepared)
await configurator.tool_disable("bash")
configurator.save("project")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.merge import copied, module_key
from amplifier_foundation.prepared_bundle import BundleSession

if TYPE_CHECKING:
    from amplifier_core import AmplifierSession
    from amplifier_foundation.prepared_bundle import PreparedBundle

__all__ = ["SessionConfigurator"]

#: The categories whose parts can be taken out, in the order in which saved settings are applied.
_CATEGORIES: Final = ("tools", "providers", "hooks", "agents", "context", "behaviors")
#: The section of the settings, and its keys.
_SECTION: Final = "configurator"
_DISABLED: Final = "disabled"
_VALUES: Final = "config"


class SessionConfigurator:
    """Take parts of a running session out and put them back, and keep the choice in settings.

    Every `..._disable` and `..._enable` returns whether it changed something, and raises KeyError for a name that the
    session never had. What the rules of the session deny stays denied whatever is enabled.
    """

    def __init__(self, session: AmplifierSession, prepared: PreparedBundle) -> None:
        """Configure a session of a prepared bundle, from the state it has now."""
        self.session = session
        self.prepared = prepared
        #: What was taken out, by category and name: what puts it back.
        self._out: dict[str, dict[str, Callable[[], Any]]] = {category: {} for category in _CATEGORIES}
        #: The modules of tools and providers that were taken out, and the parts that behaviors took with them.
        self._module_of: dict[tuple[str, str], str | None] = {}
        self._taken: dict[str, list[str]] = {}
        #: Values that were set, by dotted path.
        self._values: dict[str, Any] = {}
        self._original: dict[str, list[str]] = {}
        self.take_snapshot()

    # -- comparing --

    @property
    def snapshot(self) -> dict[str, list[str]]:
        """Return the names of the parts that the session has now, by category."""
        return {category: [one["name"] for one in self._list(category) if one["enabled"]] for category in _CATEGORIES}

    def take_snapshot(self) -> None:
        """Make the current state the one that `diff_from_original` compares with."""
        self._original = self.snapshot
        self._values = {}

    def diff_from_original(self) -> dict[str, Any]:
        """Return what was disabled and enabled since, by category, and the values that were set under `config`."""
        now, changes = self.snapshot, {}
        for category, before in self._original.items():
            out = sorted(set(before) - set(now[category]))
            back = sorted(set(now[category]) - set(before))
            if out or back:
                changes[category] = {_DISABLED: out, "enabled": back}
        return {**changes, **({_VALUES: copied(self._values)} if self._values else {})}

    # -- listing: name, whether it is enabled, and what else is known --

    def tools_list(self) -> list[dict[str, Any]]:
        """Return the tools with the modules that mounted them."""
        return self._list("tools")

    def providers_list(self) -> list[dict[str, Any]]:
        """Return the providers with the modules that mounted them."""
        return self._list("providers")

    def hooks_list(self) -> list[dict[str, Any]]:
        """Return the hook modules of the plan."""
        return self._list("hooks")

    def agents_list(self) -> list[dict[str, Any]]:
        """Return the agents with their descriptions."""
        return self._list("agents")

    def context_list(self) -> list[dict[str, Any]]:
        """Return the context files of the system prompt with their paths."""
        return self._list("context")

    def behaviors_list(self) -> list[dict[str, Any]]:
        """Return the included bundles with the parts that they alone brought."""
        return self._list("behaviors")

    def _list(self, category: str) -> list[dict[str, Any]]:
        present = self._present(category)
        known = dict.fromkeys([*present, *self._out[category]])
        return [{"name": name, "enabled": name not in self._out[category], **present.get(name, {})} for name in known]

    def _present(self, category: str) -> dict[str, dict[str, Any]]:
        coordinator = self.session.coordinator
        if category in ("tools", "providers"):
            return {name: {"module": coordinator.mounted_by(category, name)} for name in coordinator.get(category)}
        if category == "hooks":
            entries = coordinator.config.get("hooks") or []
            return {key: {"module": entry.get("module")} for entry in entries if (key := module_key(entry))}
        if category == "agents":
            agents = self._agents()
            return {
                name: {"description": agent.get("description", "") if isinstance(agent, Mapping) else ""}
                for name, agent in agents.items()
            }
        if category == "context":
            return {name: {"path": str(path)} for name, path in self._context().items()}
        return {name: {"parts": parts} for name, parts in self._behaviors().items()}

    def _agents(self) -> dict[str, Any]:
        agents: dict[str, Any] = self.session.coordinator.config.setdefault("agents", {})
        return agents

    def _context(self) -> dict[str, Path]:
        """Return the files of the system prompt, which is built for every request."""
        runtime = self.session.runtime if isinstance(self.session, BundleSession) else None
        return runtime.prompt.context if runtime is not None else self.prepared.bundle.context

    def _behaviors(self) -> dict[str, list[str]]:
        """Return the parts that only one included bundle brought, by its name."""
        behaviors: dict[str, list[str]] = {}
        for part, origins in self.prepared.bundle.origins.items():
            via = {origin.via_behavior for origin in origins}
            for name in via - {None}:
                parts = behaviors.setdefault(str(name), [])
                if len(via) == 1:
                    parts.append(part)
        return behaviors

    # -- tools and providers --

    async def tool_disable(self, name: str) -> bool:
        """Take a tool out, so that no later request offers it."""
        return self._unmount("tools", name)

    async def tool_enable(self, name: str) -> bool:
        """Put a tool back."""
        return self._restore("tools", name)

    async def tool_disable_module(self, module: str) -> bool:
        """Take out every tool that a module mounted."""
        return await self._of_module("tools", module, self.tool_disable)

    async def tool_enable_module(self, module: str) -> bool:
        """Put back every tool that a module mounted."""
        return await self._of_module("tools", module, self.tool_enable)

    async def provider_disable(self, name: str) -> bool:
        """Take a provider out; raises ValueError for the last one, without which nothing answers."""
        mounted = self.session.coordinator.get("providers")
        if name in mounted and len(mounted) == 1:
            raise ValueError(f"{name!r} is the last provider of the session: enable another one first")
        return self._unmount("providers", name)

    async def provider_enable(self, name: str) -> bool:
        """Put a provider back."""
        return self._restore("providers", name)

    def _unmount(self, point: str, name: str) -> bool:
        if not self._is_in(point, name):
            return False
        coordinator = self.session.coordinator
        module, part = coordinator.mounted_by(point, name), coordinator.get(point, name)

        def restore() -> None:
            coordinator.get(point)[name] = part

        coordinator.get(point).pop(name)
        self._out[point][name] = restore
        self._module_of[point, name] = module
        return True

    async def _of_module(self, point: str, module: str, change: Callable[[str], Any]) -> bool:
        coordinator = self.session.coordinator
        names = [name for name in coordinator.get(point) if coordinator.mounted_by(point, name) == module]
        names += [name for (at, name), of in self._module_of.items() if (at, of) == (point, module)]
        if not names:
            raise KeyError(f"no module {module!r} has mounted {point}")
        return any([await change(name) for name in dict.fromkeys(names)])

    # -- hooks, agents and context --

    def hook_disable(self, name: str) -> bool:
        """Remove the handlers of a hook module; the rules of the session are no hook and stay."""
        if not self._is_in("hooks", name):
            return False
        module = str(self._present("hooks")[name]["module"])
        self._out["hooks"][name] = self.session.coordinator.hooks.detach(module)
        return True

    def hook_enable(self, name: str) -> bool:
        """Put the handlers of a hook module back in their places."""
        return self._restore("hooks", name)

    def agent_disable(self, name: str) -> bool:
        """Take an agent out, so that it cannot be called."""
        return self._take("agents", self._agents(), name)

    def agent_enable(self, name: str) -> bool:
        """Put an agent back."""
        return self._restore("agents", name)

    def context_disable(self, name: str) -> bool:
        """Take a context file out of the system prompt, from the next request on."""
        return self._take("context", self._context(), name)

    def context_enable(self, name: str) -> bool:
        """Put a context file back."""
        return self._restore("context", name)

    def _take(self, category: str, parts: dict[str, Any], name: str) -> bool:
        if not self._is_in(category, name):
            return False
        part = parts.pop(name)
        self._out[category][name] = lambda: parts.__setitem__(name, part)
        return True

    # -- behaviors --

    async def behavior_disable(self, name: str) -> bool:
        """Take out everything that only this included bundle brought; raises ValueError as `provider_disable`."""
        if not self._is_in("behaviors", name):
            return False
        taken = [part for part in self._behaviors()[name] if await self._switch(part, enable=False)]
        self._out["behaviors"][name] = lambda: None
        self._taken[name] = taken
        return True

    async def behavior_enable(self, name: str) -> bool:
        """Put back what disabling this included bundle took out."""
        if not self._restore("behaviors", name):
            return False
        for part in self._taken.pop(name):
            await self._switch(part, enable=True)
        return True

    async def _switch(self, part: str, *, enable: bool) -> bool:
        """Enable or disable `section:key`; False if the session does not have it."""
        section, _, key = part.partition(":")
        tools = self.tool_enable_module if enable else self.tool_disable_module
        try:
            if section == "tools":
                return await tools(key)
            if section == "providers":
                return await self._of_module(
                    "providers", key, self.provider_enable if enable else self.provider_disable
                )
            if section == "context" and ":" not in key:
                found = [name for name in (*self._context(), *self._out["context"]) if name.endswith(f":{key}")]
                key = found[0] if found else key
            one = {"hooks": "hook", "agents": "agent", "context": "context"}[section]
            return bool(getattr(self, f"{one}_{'enable' if enable else 'disable'}")(key))
        except KeyError:
            return False

    # -- values --

    def config_get(self, path: str, default: Any = None) -> Any:
        """Return a value of the plan by its dotted path; modules go by their id: `tools.tool-bash.config.timeout`."""
        value: Any = self.session.coordinator.config
        for key in path.split("."):
            value = _entry(value, key)
            if value is None:
                return default
        return copied(value)

    def config_set(self, path: str, value: Any) -> None:
        """Set a value of the plan, and of the mounted module if it keeps its config.

        Raises KeyError for a module that the plan does not have, and ValueError for a path that leads into a value.
        """
        keys = path.split(".")
        place: Any = self.session.coordinator.config
        for key in keys[:-1]:
            inner = _entry(place, key)
            if inner is None and isinstance(place, dict):
                inner = place[key] = {}
            if inner is None:
                raise KeyError(f"{path!r}: there is no {key!r}")
            place = inner
        if not isinstance(place, dict):
            raise ValueError(f"{path!r} leads into a value that is no mapping")
        place[keys[-1]] = copied(value)
        self._values[path] = copied(value)
        if len(keys) == 4 and keys[0] in ("tools", "providers") and keys[2] == "config":
            coordinator = self.session.coordinator
            for name, mounted in coordinator.get(keys[0]).items():
                own = getattr(mounted, "config", None)
                if keys[1] in (name, coordinator.mounted_by(keys[0], name)) and isinstance(own, dict):
                    own[keys[3]] = copied(value)

    # -- keeping --

    def save(self, scope: str = "global") -> Path:
        """Write what is disabled and set into the settings of a scope, and return the file; raises SettingsError."""
        from amplifier_foundation.paths import Home
        from amplifier_foundation.settings.edit import set_value
        from amplifier_foundation.settings.keys import KeyStore
        from amplifier_foundation.settings.scopes import parse_scope, scope_file

        home = Home.find()
        runtime = self.session.runtime if isinstance(self.session, BundleSession) else None
        project = runtime.prepared.project if runtime is not None else Path.cwd()
        name = parse_scope(scope)
        path = scope_file(name, home, project, runtime.folder if runtime is not None else None)
        content: dict[str, Any] = {category: {_DISABLED: sorted(out)} for category, out in self._out.items() if out}
        if self._values:
            content[_VALUES] = copied(self._values)
        set_value(path, (_SECTION,), content, KeyStore(home))
        return path

    async def apply_saved_settings(self, settings: Mapping[str, Any]) -> list[str]:
        """Apply what `save` wrote, the settings or their section `configurator`; return a warning for what fails.

        Settings may be those of a project that nobody trusts: they take out no hook that guards the session, and do
        not say where a provider or tool sends requests, or with whose key. The app's own calls do.
        """
        saved = settings.get(_SECTION, settings)
        warnings: list[str] = []
        for category in _CATEGORIES:
            chosen = saved.get(category) if isinstance(saved, Mapping) else None
            for name in (chosen.get(_DISABLED) or ()) if isinstance(chosen, Mapping) else ():
                try:
                    self._check_saved(category, str(name))
                    await self._disable(category, str(name))
                except (KeyError, ValueError) as error:
                    warnings.append(f"{_SECTION}.{category}: {error.args[0]}")
        values = saved.get(_VALUES) if isinstance(saved, Mapping) else None
        for path, value in values.items() if isinstance(values, Mapping) else ():
            try:
                self._check_saved(_VALUES, str(path), value)
                self.config_set(str(path), value)
            except (KeyError, ValueError) as error:
                warnings.append(f"{_SECTION}.{_VALUES}: {error.args[0]}")
        return warnings

    def _check_saved(self, category: str, name: str, value: Any = None) -> None:
        """Raise ValueError for what only the app may do, by calls of its own."""
        from amplifier_foundation.children.model_roles import has_protected, is_protected
        from amplifier_foundation.children.restrictions import GUARDS

        if category == _VALUES:
            section, _, *keys = (*name.split("."), "")
            is_named = section in ("providers", "tools", "agents") and any(map(is_protected, keys))
            if section == "hooks" or is_named or has_protected(value):
                raise ValueError(f"{name!r} cannot be set by saved settings: call config_set")
            return
        parts = self._behaviors().get(name, []) if category == "behaviors" else [f"{category}:{name}"]
        hooks = self._present("hooks")
        keys = [key for section, _, key in (part.partition(":") for part in parts) if section == "hooks"]
        guards = [key for key in keys if hooks.get(key, {}).get("module") in GUARDS]
        if guards:
            raise ValueError(f"{name!r} guards the session ({', '.join(guards)}): saved settings do not take it out")

    async def _disable(self, category: str, name: str) -> None:
        changed = getattr(self, f"{category.removesuffix('s')}_disable")(name)
        if not isinstance(changed, bool):
            await changed

    # -- what is in and what is out --

    def _is_in(self, category: str, name: str) -> bool:
        """Return whether the session has a part now; raises KeyError for one that it never had."""
        if name in self._out[category]:
            return False
        known = list(self._present(category))
        if name not in known:
            raise KeyError(f"the session has no {category.removesuffix('s')} {name!r}: {did_you_mean(name, known)}")
        return True

    def _restore(self, category: str, name: str) -> bool:
        if name not in self._out[category]:
            self._is_in(category, name)
            return False
        self._out[category].pop(name)()
        return True


def _entry(value: Any, key: str) -> Any:
    """Return what a key leads to in a mapping, or a module of a list by its id."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list):
        return next((entry for entry in value if module_key(entry) == key), None)
    return None
