"""What the package offers by name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import amplifier_core
from amplifier_core import HookRegistry

from .base import Stage, outcome, scenario

SUBMODULES = """
approval cancellation capabilities cli content_models coordinator correlation display events hooks interfaces llm_errors
loader message_models models module_sources session testing utils utils.retry utils.truncate validation validation.base
validation.tool validation.hook validation.provider validation.orchestrator validation.context validation.mount_plan
validation.proto_schema _session_init
"""


@scenario
async def all_names(stage: Stage) -> Any:
    """Every public name is listed and is there."""
    return {name: hasattr(amplifier_core, name) for name in sorted(amplifier_core.__all__) if name.isidentifier()}


@scenario
async def submodules(stage: Stage) -> Any:
    """Every documented submodule can be imported."""
    found = {}
    for name in SUBMODULES.split():
        found[name] = await outcome(lambda name=name: importlib.import_module(f"amplifier_core.{name}").__name__)
    return found


@scenario
async def one_object_by_every_path(stage: Stage) -> Any:
    """A name is the same object wherever it is imported from."""
    from amplifier_core import hooks, models, session

    return [
        hooks.HookResult is models.HookResult is amplifier_core.HookResult,
        session.AmplifierSession is amplifier_core.AmplifierSession,
        hooks.HookRegistry is amplifier_core.HookRegistry,
        models.ToolResult is amplifier_core.ToolResult,
    ]


@scenario
async def event_names(stage: Stage) -> Any:
    """The events, in order, and their constants."""
    from amplifier_core import events

    return [
        events.ALL_EVENTS,
        {n: getattr(events, n) for n in sorted(dir(events)) if n.isupper() and n != "ALL_EVENTS"},
    ]


@scenario
async def capability_names(stage: Stage) -> Any:
    """The well-known capabilities."""
    from amplifier_core import capabilities

    return [capabilities.ALL_WELL_KNOWN_CAPABILITIES, sorted(n for n in dir(capabilities) if n.isupper())]


@scenario
async def registry_constants(stage: Stage) -> Any:
    """The event names on the registry class."""
    return {name: getattr(HookRegistry, name) for name in dir(HookRegistry) if name.isupper()}


@scenario
async def loader_constants(stage: Stage) -> Any:
    """The loader's tables."""
    from amplifier_core import loader

    return [loader.TYPE_TO_MOUNT_POINT, sorted(loader.MODULE_FAILURE_REASONS)]


@scenario
async def protocols_are_not_runtime_checkable(stage: Stage) -> Any:
    """isinstance on a protocol is refused."""
    from amplifier_core import Orchestrator, Tool

    refused = [await outcome(lambda kind=kind: isinstance(object(), kind)) for kind in (Tool, Orchestrator)]
    return [text if isinstance(text, bool) else text.split(":")[0] for text in refused]


@scenario
async def protocol_members(stage: Stage) -> Any:
    """The parameters of the protocols' methods."""
    from amplifier_core import ContextManager, Orchestrator, Provider, Tool

    found = {}
    for kind in (Tool, Provider, Orchestrator, ContextManager):
        for name, member in vars(kind).items():
            if not name.startswith("_") and inspect.isfunction(member):
                found[f"{kind.__name__}.{name}"] = [
                    str(p).split(":")[0].split("=")[0].strip() for p in inspect.signature(member).parameters.values()
                ]
    return found


@scenario
async def redact_and_truncate(stage: Stage) -> Any:
    """The two helpers for logs."""
    from amplifier_core.utils import SENSITIVE_KEYS, redact_secrets, truncate_values

    secret = {"api_key": "k", "Token": "t", "tokens": 3, "nested": [{"PASSWORD": "p", "note": "n"}], "auth": {"a": 1}}
    long = {"text": "x" * 200, "list": ["y" * 181, 1], "short": "z" * 180}
    return [
        sorted(SENSITIVE_KEYS),
        redact_secrets(secret),
        secret["api_key"],
        truncate_values(long),
        truncate_values("abcdef", 3),
    ]
