"""Check what a bundle file says: every key known, every value of the right shape, faults with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.bundle import Bundle, BundleError
from amplifier_foundation.bundles.layer import Owner
from amplifier_foundation.documents import Document
from amplifier_foundation.errors import did_you_mean

TOP_LEVEL_KEYS: Final = (
    "bundle",
    "includes",
    "session",
    *MODULE_SECTIONS,
    "agents",
    "context",
    "spawn",
    "orchestrator",
    "default_provider",
)
BUNDLE_KEYS: Final = ("name", "version", "description", "namespace_root", "sub_bundles")
#: A session has free keys as well: only what looks like one of these is taken for a slip.
SESSION_KEYS: Final = (
    "orchestrator",
    "context",
    "raw",
    "orchestrator_source",
    "context_source",
    "metadata",
    "budget",
    "hook_timeout",
    "ready_timeout",
    "approval_timeout",
    "injection_budget_per_turn",
    "injection_size_limit",
)
MODULE_KEYS: Final = ("module", "source", "config", "id", "instance_id")
AGENT_KEYS: Final = (
    "meta",
    "name",
    "description",
    "instruction",
    "session",
    *MODULE_SECTIONS,
    "agents",
    "context",
    "spawn",
    "provider_preferences",
    "model_role",
)
SPAWN_KEYS: Final = ("exclude_tools", "tools")
#: Keys seen in bundles of others that change nothing.
_WITHOUT_EFFECT: Final = {
    ("default_provider",): "the provider with the lowest priority is used",
    ("bundle", "sub_bundles"): "",
}
_SLIP: Final = 0.8
Keys = tuple[str | int, ...]


def check_bundle(document: Document, owner: Owner) -> list[str]:
    """Return warnings about a bundle file.

    Raises BundleError with all faults, each with file and line: values of a wrong shape in any file, unknown keys in
    files that the product, the user or the project author; in fetched ones unknown keys are warnings.
    """
    check = _Check(document, owner)
    check.top()
    if check.faults:
        raise BundleError("\n".join(check.faults))
    return check.warnings


class _Check:
    """One walk over one file."""

    def __init__(self, document: Document, owner: Owner) -> None:
        self.document = document
        self.owner = owner
        self.faults: list[str] = []
        self.warnings: list[str] = []

    def fault(self, at: Keys, text: str) -> None:
        self.faults.append(f"{self.document.where(*at)}: {text}")

    def warn(self, at: Keys, text: str) -> None:
        self.warnings.append(f"{self.document.where(*at)}: {text}")

    def unknown(self, at: Keys, text: str) -> None:
        """Note what is not understood: a fault in an authored file, a warning in a fetched one."""
        (self.warn if self.owner == "fetched" else self.fault)(at, text)

    def keys(self, value: Mapping[Any, Any], known: Iterable[str], at: Keys) -> None:
        names = list(known)
        place = f" in {_dotted(at)}" if at else ""
        for key in value:
            if key not in names:
                self.unknown((*at, key), f"unknown key {key!r}{place}: {did_you_mean(key, names)}")

    def mapping(self, value: Any, at: Keys, what: str = "a mapping") -> Mapping[Any, Any]:
        """Return the mapping at this place, an empty one for nothing and for what is none."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fault(at, f"{_quoted(at)} must be {what}, got {type(value).__name__}")
            return {}
        return value

    def text(self, value: Any, at: Keys, *, required: bool = False) -> None:
        if not isinstance(value, str) and (required or value is not None):
            self.fault(at, f"{_quoted(at)} must be a text, got {value!r}")

    def texts(self, value: Any, at: Keys, of: str) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            self.fault(at, f"{_quoted(at)} must be a list of {of}, got {type(value).__name__}")
            return
        for index, item in enumerate(value):
            self.text(item, (*at, index), required=True)

    def top(self) -> None:
        data = self.document.data
        self.keys(data, TOP_LEVEL_KEYS, ())
        described = self.mapping(data.get("bundle"), ("bundle",))
        self.keys(described, BUNDLE_KEYS, ("bundle",))
        for key in ("name", "description", "namespace_root"):
            self.text(described.get(key), ("bundle", key))
        for at, hint in _WITHOUT_EFFECT.items():
            if at[-1] in (data if len(at) == 1 else described):
                self.warn(at, f"{_quoted(at)} has no effect{': ' + hint if hint else ''}")
        self.includes(data.get("includes"))
        self.plan(data, ())
        self.context(data.get("context"))

    def includes(self, value: Any) -> None:
        if value is not None and not isinstance(value, list):
            self.fault(("includes",), f"'includes' must be a list of bundles, got {type(value).__name__}")
            return
        for index, item in enumerate(value or ()):
            at: Keys = ("includes", index)
            if isinstance(item, str) and item.strip():
                continue
            if not isinstance(item, Mapping):
                self.fault(at, f"includes[{index}] must be a reference or {{bundle: reference}}, got {item!r}")
            elif "bundle" in item:
                self.keys(item, ("bundle",), at)
                if not isinstance(item["bundle"], str) or not item["bundle"].strip():
                    self.fault(at, f"includes[{index}].bundle must be a reference, got {item['bundle']!r}")
            elif "behavior" in item:
                self.unknown(at, f"includes[{index}] is ignored: write {{bundle: {item['behavior']}}}, not 'behavior'")
            else:
                self.unknown(at, f"includes[{index}] is ignored: it has no 'bundle'; write {{bundle: reference}}")

    def plan(self, part: Mapping[Any, Any], at: Keys) -> None:
        """Check the sections that bundles and agents have in common."""
        session = self.mapping(part.get("session"), (*at, "session"))
        for key, value in session.items():
            self.session_key(key, value, (*at, "session", key))
        for section in MODULE_SECTIONS:
            self.modules(part.get(section), (*at, section))
        spawn = self.mapping(part.get("spawn"), (*at, "spawn"))
        self.keys(spawn, SPAWN_KEYS, (*at, "spawn"))
        self.texts(spawn.get("exclude_tools"), (*at, "spawn", "exclude_tools"), "module ids")
        self.modules(spawn.get("tools"), (*at, "spawn", "tools"))
        self.agents(part.get("agents"), (*at, "agents"), in_agent=bool(at))

    def session_key(self, key: Any, value: Any, at: Keys) -> None:
        if key in SESSION_MODULES:
            if isinstance(value, Mapping):
                self.module(value, at)
            elif value is not None and not isinstance(value, str):
                self.fault(at, f"{_quoted(at)} must be a module's id or a mapping, got {type(value).__name__}")
        elif key == "budget":
            self.budget(value, at)
        elif key not in SESSION_KEYS:
            import difflib

            near = difflib.get_close_matches(str(key), SESSION_KEYS, n=1, cutoff=_SLIP)
            if near:
                self.unknown(at, f"unknown key {key!r} in {_dotted(at[:-1])}: did you mean {near[0]!r}?")

    def budget(self, value: Any, at: Keys) -> None:
        """Check limits; what a variable makes of one is seen when the session starts."""
        limits = self.mapping(value, at, "a mapping of limits")
        if not limits:
            return
        from amplifier_foundation.usage.budget import LIMITS, BudgetError, read_limits

        self.keys(limits, LIMITS, at)
        for name, limit in limits.items():
            if name in LIMITS and not (isinstance(limit, str) and "${" in limit):
                try:
                    read_limits({name: limit})
                except BudgetError as error:
                    self.fault((*at, name), str(error))

    def modules(self, value: Any, at: Keys) -> None:
        if value is None:
            return
        if not isinstance(value, list):
            self.fault(at, f"{_quoted(at)} must be a list of modules, got {type(value).__name__}")
            return
        for index, entry in enumerate(value):
            if isinstance(entry, Mapping):
                self.module(entry, (*at, index))
            else:
                hint = f": write {{module: {entry}}}" if isinstance(entry, str) else ""
                self.fault(
                    (*at, index), f"{_dotted((*at, index))} must be a mapping with a 'module', got {entry!r}{hint}"
                )

    def module(self, entry: Mapping[Any, Any], at: Keys) -> None:
        if not isinstance(entry.get("module"), str) or not entry["module"]:
            # An `id` alone lays configuration over an entry of another file, and so does the short form of a session.
            if not isinstance(entry.get("id"), str) and at[-2:-1] != ("session",):
                self.fault(at, f"{_dotted(at)} must be a mapping with a 'module', got {dict(entry)!r}")
            elif "module" in entry:
                self.fault(
                    (*at, "module"), f"{_dotted((*at, 'module'))} must be a module's id, got {entry['module']!r}"
                )
        self.keys(entry, MODULE_KEYS, at)
        for key in ("source", "id", "instance_id"):
            self.text(entry.get(key), (*at, key))
        self.mapping(entry.get("config"), (*at, "config"))

    def agents(self, value: Any, at: Keys, *, in_agent: bool) -> None:
        if isinstance(value, str | list):
            if in_agent:
                return
            self.warn(at, f"{_quoted(at)} says which agents an agent may call: in a bundle it adds none")
            return
        agents = self.mapping(value, at, "a mapping, 'all', 'none' or a list of names")
        self.texts(agents.get("include"), (*at, "include"), "agent names")
        for name, agent in agents.items():
            if name == "include":
                continue
            definition = self.mapping(agent, (*at, name))
            self.keys(definition, AGENT_KEYS, (*at, name))
            self.plan(definition, (*at, name))

    def context(self, value: Any) -> None:
        context = self.mapping(value, ("context",))
        self.texts(context.get("include"), ("context", "include"), "paths")
        for name, path in context.items():
            if name != "include":
                self.text(path, ("context", name), required=True)


def _dotted(at: Keys) -> str:
    text = ""
    for key in at:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def _quoted(at: Keys) -> str:
    return f"'{_dotted(at)}'"


@dataclass
class Validation:
    """What is wrong with a bundle as it was composed."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Return whether there is no error."""
        return not self.errors


def validate(bundle: Bundle, *, strict: bool = False) -> Validation:
    """Return the faults of a composed bundle; missing context files are warnings, errors when `strict`."""
    result = Validation()
    if not bundle.name:
        result.errors.append("the bundle has no name: give it one with `bundle: {name: …}`")
    for section in MODULE_SECTIONS:
        for index, entry in enumerate(getattr(bundle, section)):
            _validate_module(entry, f"{section}[{index}]", result.errors.append)
    for key in SESSION_MODULES:
        spec = bundle.session.get(key)
        if isinstance(spec, Mapping):
            _validate_module(spec, f"session.{key}", result.errors.append)
        elif spec is not None and not isinstance(spec, str):
            result.errors.append(f"session.{key} must be a module's id or a mapping, got {type(spec).__name__}")
    agents: Mapping[str, Any] = bundle.agents
    for name, agent in agents.items():
        if not isinstance(agent, Mapping):
            result.errors.append(f"agents.{name} must be a mapping, got {type(agent).__name__}")
    missing = [
        f"context {name!r}: there is no file {path}" for name, path in bundle.context.items() if not path.exists()
    ]
    missing += [f"context {reference!r}: its namespace is not known" for reference in bundle.pending_context]
    (result.errors if strict else result.warnings).extend(missing)
    return result


def validate_completeness(bundle: Bundle, *, strict: bool = False) -> Validation:
    """Return the faults of a bundle that is to be run as it is: a loop, a context and a provider are needed too."""
    result = validate(bundle, strict=strict)
    for key in SESSION_MODULES:
        if not bundle.session.get(key):
            result.errors.append(f"session.{key} is not set: name a module, or include a bundle that does")
    if not bundle.providers:
        result.errors.append("there is no provider: name one under `providers`, or in the settings")
    return result


def _validate_module(entry: Any, at: str, fault: Callable[[str], None]) -> None:
    if not isinstance(entry, Mapping):
        fault(f"{at} must be a mapping, got {type(entry).__name__}")
        return
    if not isinstance(entry.get("module"), str) or not entry["module"]:
        fault(f"{at} has no 'module'")
    if entry.get("config") is not None and not isinstance(entry["config"], Mapping):
        fault(f"{at}.config must be a mapping, got {type(entry['config']).__name__}")
