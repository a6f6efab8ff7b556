"""Check a bundle file: every key known, every value of the right type, errors with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.bundle import Bundle, BundleError, Owner
from amplifier_foundation.documents import Document
from amplifier_foundation.shapes import (
    Keys,
    Problems,
    Shape,
    anything,
    dotted,
    fields,
    filled_text,
    kind,
    list_of,
    mapping,
    text,
)
from amplifier_kit.struct import Struct

#: A session has free keys as well: only what looks like one of these counts as mistyped.
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
#: Keys seen in bundles of others that change nothing.
_WITHOUT_EFFECT: Final = {
    ("default_provider",): ": the provider with the lowest priority is used",
    ("bundle", "sub_bundles"): "",
}
_SLIP: Final = 0.8


def check_bundle(document: Document, owner: Owner) -> list[str]:
    """Return warnings about a bundle file.

    Raises BundleError with all errors, each with file and line: values of a wrong type in any file, unknown keys in
    files of the product, and those that look like a mistyped key in files of the user or the project. Other unknown
    keys are warnings: bundles of others have keys that nothing reads.
    """
    problems = problems_of(document.where, owner)
    _BUNDLE(document.data, (), problems)
    described = document.data.get("bundle")
    for at, hint in _WITHOUT_EFFECT.items():
        part = document.data if len(at) == 1 else described
        if isinstance(part, Mapping) and at[-1] in part:
            problems.warn(at, f"'{dotted(at)}' has no effect{hint}")
    if problems.faults:
        raise BundleError("\n".join(problems.faults))
    return problems.warnings


def problems_of(where: Callable[..., str], owner: Owner) -> Problems:
    """Return what collects the problems of a file, by whose file it is."""
    return Problems(where, is_lenient=owner == "fetched", allows_foreign=owner != "product")


def _include(value: Any, at: Keys, problems: Problems) -> None:
    if isinstance(value, str) and value.strip():
        return
    if not isinstance(value, Mapping):
        problems.fault(at, f"{dotted(at)} must be a reference or {{bundle: reference}}, got {kind(value)}")
    elif "bundle" in value:
        fields({"bundle": filled_text})(value, at, problems)
        if value["bundle"] is None:
            problems.fault(at, f"{dotted(at)} names no bundle")
    elif "behavior" in value:
        fields({"behavior": filled_text})(value, at, problems)
        problems.warn(at, f"{dotted(at)}: 'behavior' is read as 'bundle': write {{bundle: {value['behavior']}}}")
    else:
        what = f"{dotted(at)} is ignored: it has no 'bundle'; write {{bundle: reference}}"
        problems.unknown(at, what, is_slip=not value)


def _session(value: Any, at: Keys, problems: Problems) -> None:
    if not problems.expect(isinstance(value, Mapping), "a mapping", value, at):
        return
    for key, item in value.items():
        place = (*at, key)
        if key in SESSION_MODULES and isinstance(item, Mapping):
            _module(item, place, problems)
        elif key in SESSION_MODULES:
            problems.expect(item is None or isinstance(item, str), "a module's id or a mapping", item, place)
        elif key == "budget":
            _budget(item, place, problems)
        elif key not in SESSION_KEYS:
            import difflib

            near = difflib.get_close_matches(str(key), SESSION_KEYS, n=1, cutoff=_SLIP)
            if near:
                problems.unknown(place, f"unknown key {key!r} in {dotted(at)}: did you mean {near[0]!r}?")


def _budget(value: Any, at: Keys, problems: Problems) -> None:
    """Check limits; one that is set by a variable is checked when the session starts."""
    if not value and isinstance(value, Mapping | None):
        return
    from amplifier_foundation.usage.budget import LIMITS, BudgetError, read_limits

    fields(dict.fromkeys(LIMITS, anything), "a mapping of limits")(value, at, problems)
    for name, limit in value.items() if isinstance(value, Mapping) else ():
        if name in LIMITS and not (isinstance(limit, str) and "${" in limit):
            try:
                read_limits({name: limit})
            except BudgetError as error:
                problems.fault((*at, name), str(error))


def _module(value: Any, at: Keys, problems: Problems) -> None:
    wanted = f"{dotted(at)} must be a mapping with a 'module'"
    if not isinstance(value, Mapping):
        hint = f": write {{module: {value}}}" if isinstance(value, str) else ""
        problems.fault(at, f"{wanted}, got {kind(value)}{hint}")
        return
    if not isinstance(value.get("module"), str) or not value["module"]:
        # An `id` alone lays configuration over an entry of another file, and so does the short form of a session.
        if not isinstance(value.get("id"), str) and at[-2:-1] != ("session",):
            problems.fault(at, wanted)
        elif "module" in value:
            problems.expect(False, "a module's id", value["module"], (*at, "module"))
    fields(MODULE_FIELDS)(value, at, problems)


def _agents(value: Any, at: Keys, problems: Problems) -> None:
    if isinstance(value, str | list):
        problems.warn(at, f"'{dotted(at)}' says which agents an agent may call: in a bundle it adds none")
        return
    what = "a mapping, 'all', 'none' or a list of names"
    for name, agent in value.items() if problems.expect(isinstance(value, Mapping), what, value, at) else ():
        if name != "include":
            AGENT(agent, (*at, name), problems)
        elif agent is not None:
            list_of(text, "a list of agent names")(agent, (*at, name), problems)


def context_files(value: Any, at: Keys, problems: Problems) -> None:
    """Check the section `context` of a bundle or an agent."""
    for name, path in value.items() if problems.expect(isinstance(value, Mapping), "a mapping", value, at) else ():
        if name != "include":
            text(path, (*at, name), problems)
        elif path is not None:
            list_of(text, "a list of paths")(path, (*at, name), problems)


MODULE_FIELDS: Final[Mapping[str, Shape]] = {
    "module": anything,
    "source": text,
    "config": mapping,
    "id": text,
    "instance_id": text,
}
_MODULES: Final = list_of(_module, "a list of modules")
SPAWN_FIELDS: Final[Mapping[str, Shape]] = {
    "exclude_tools": list_of(text, "a list of module ids"),
    "tools": _MODULES,
}
#: The sections that bundles and agents have in common.
_PLAN: Final[Mapping[str, Shape]] = {
    "session": _session,
    **dict.fromkeys(MODULE_SECTIONS, _MODULES),
    "spawn": fields(SPAWN_FIELDS),
}
#: `agent_file` checks what only agents have.
AGENT_FIELDS: Final[Mapping[str, Shape]] = {
    "meta": anything,
    "name": anything,
    "description": anything,
    "instruction": anything,
    **_PLAN,
    "agents": anything,
    "context": anything,
    "provider_preferences": anything,
    "model_role": anything,
    "system": anything,
}
AGENT: Final = fields(AGENT_FIELDS)
BUNDLE_FIELDS: Final[Mapping[str, Shape]] = {
    "name": text,
    "version": anything,
    "description": text,
    "namespace_root": text,
    "sub_bundles": anything,
}
TOP_LEVEL_FIELDS: Final[Mapping[str, Shape]] = {
    "bundle": fields(BUNDLE_FIELDS),
    "includes": list_of(_include, "a list of bundles"),
    **_PLAN,
    "agents": _agents,
    "context": context_files,
    "orchestrator": anything,
    "default_provider": anything,
}
_BUNDLE: Final = fields(TOP_LEVEL_FIELDS)


# -- a bundle as it was composed --


class Validation(Struct):
    """The errors of a composed bundle."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def validate(bundle: Bundle, *, strict: bool = False) -> Validation:
    """Return the errors of a composed bundle, whose files are valid; missing context is an error when `strict`."""
    result = Validation()
    entries = [
        (f"{section}[{index}]", entry) for section in MODULE_SECTIONS for index, entry in _listed(bundle, section)
    ]
    entries += [(f"session.{key}", bundle.session[key]) for key in SESSION_MODULES if bundle.session.get(key)]
    for at, entry in entries:
        if isinstance(entry, Mapping) and not entry.get("module"):
            result.errors.append(f"{at} has no 'module': no file says which module it configures")
    missing = [
        f"context {name!r}: there is no file {path}" for name, path in bundle.context.items() if not path.exists()
    ]
    missing += [f"context {reference!r}: its namespace is not known" for reference in bundle.pending_context]
    (result.errors if strict else result.warnings).extend(missing)
    return result


def _listed(bundle: Bundle, section: str) -> Iterable[tuple[int, Any]]:
    return enumerate(getattr(bundle, section))


def validate_completeness(bundle: Bundle, *, strict: bool = False) -> Validation:
    """Return the errors of a bundle that is to be run as it is: a loop, a context and a provider are needed too."""
    result = validate(bundle, strict=strict)
    for key in SESSION_MODULES:
        if not bundle.session.get(key):
            result.errors.append(f"session.{key} is not set: name a module, or include a bundle that does")
    if not bundle.providers:
        result.errors.append("there is no provider: name one under `providers`, or in the settings")
    return result
