"""The validators of modules, each on good and bad modules."""

from __future__ import annotations

from typing import Any

from amplifier_core.validation import (
    ContextValidator,
    HookValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationCheck,
    ValidationResult,
)

from .base import Stage, outcome, scenario
from .module_factory import CONTEXT, HOOK, ORCHESTRATOR, PROVIDER, TOOL, write_module

VALIDATORS: dict[str, Any] = {
    "tool": ToolValidator,
    "provider": ProviderValidator,
    "hook": HookValidator,
    "orchestrator": OrchestratorValidator,
    "context": ContextValidator,
}
SOURCES = {
    "tool": TOOL.format(name="good"),
    "provider": PROVIDER.replace("{name}", "good"),
    "hook": HOOK.replace("{name}", "good"),
    "orchestrator": ORCHESTRATOR,
    "context": CONTEXT,
}


async def verdict(stage: Stage, kind: str, source: str, config: dict[str, Any] | None = None) -> Any:
    """Write a module, validate it as `kind` and tell everything about the result."""
    number = len(list(stage.folder.iterdir()))
    package = write_module(stage.folder, f"{kind}-subject-{number}", source)
    result = await VALIDATORS[kind]().validate(str(package), config=config)
    return [
        result.module_type,
        result.passed,
        result.summary(),
        [[c.name, c.passed, c.message, c.severity] for c in result.checks],
    ]


def mounting(kind: str, value: str, returns: str = "None") -> str:
    """Return the source of a module that mounts `value` at its kind's point."""
    point = {
        "tool": '"tools", {}, name="x"',
        "provider": '"providers", {}, name="x"',
        "orchestrator": '"orchestrator", {}',
        "context": '"context", {}',
    }
    mount = f"await coordinator.mount({point[kind].format(value)})" if value else "pass"
    return (
        f"class Empty:\n    pass\n\n\nasync def mount(coordinator, config=None):\n    {mount}\n    return {returns}\n"
    )


@scenario
async def good_modules(stage: Stage) -> Any:
    """A good module of each kind."""
    return [await verdict(stage, kind, source) for kind, source in SOURCES.items()]


@scenario
async def no_mount(stage: Stage) -> Any:
    """No mount, and a mount that cannot be called."""
    return [await verdict(stage, "tool", source) for source in ("x = 1\n", "mount = 5\n")]


@scenario
async def wrong_signatures(stage: Stage) -> Any:
    """Sync mounts, and mounts with too few parameters."""
    sources = (
        "def mount(coordinator, config=None):\n    return None\n",
        "async def mount(coordinator):\n    return None\n",
        "async def mount(*args):\n    return None\n",
    )
    return [await verdict(stage, "tool", source) for source in sources]


@scenario
async def broken_imports(stage: Stage) -> Any:
    """Modules that cannot be imported."""
    return [
        await verdict(stage, "tool", source)
        for source in ("import no_such_module_anywhere\n", "raise ValueError('at import')\n", "def broken(:\n")
    ]


@scenario
async def raising_mount(stage: Stage) -> Any:
    """A mount that raises."""
    return await verdict(stage, "tool", "async def mount(coordinator, config=None):\n    raise OSError('no disk')\n")


@scenario
async def nothing_mounted(stage: Stage) -> Any:
    """Modules that mount nothing and return nothing."""
    return [await verdict(stage, kind, mounting(kind, "")) for kind in ("tool", "provider", "orchestrator", "context")]


@scenario
async def cleanup_returned(stage: Stage) -> Any:
    """Modules that mount nothing and return a cleanup function."""
    return [
        await verdict(stage, kind, mounting(kind, "", "lambda: None"))
        for kind in ("tool", "provider", "orchestrator", "context")
    ]


@scenario
async def wrong_objects(stage: Stage) -> Any:
    """Modules that mount something of the wrong shape."""
    return [
        await verdict(stage, kind, mounting(kind, "Empty()"))
        for kind in ("tool", "provider", "orchestrator", "context")
    ]


@scenario
async def instance_returned(stage: Stage) -> Any:
    """Modules that return an instance instead of mounting it."""
    found = []
    for kind, made in (
        ("tool", "Tool(config)"),
        ("provider", 'Provider("p", config)'),
        ("orchestrator", "Loop()"),
        ("context", "Context()"),
    ):
        source = SOURCES[kind]
        head = source[: source.index("async def mount")]
        found.append(
            await verdict(stage, kind, f"{head}async def mount(coordinator, config=None):\n    return {made}\n")
        )
    return found


@scenario
async def faulty_tools(stage: Stage) -> Any:
    """Tools with a fault in each member."""
    changes = {
        'name = "good"': 'name = ""',
        'description = "Echo the input."': "description = 5",
        "async def execute": "def execute",
        "execute(self, input)": "execute(self)",
        'input_schema = {"type"': 'input_schema = [{"type"',
    }
    found = []
    for old, new in changes.items():
        source = SOURCES["tool"].replace(old, new)
        if "[{" in new:
            source = source.replace('"string"}}}', '"string"}}}]')
        found.append(await verdict(stage, "tool", source))
    return [*found, await verdict(stage, "tool", SOURCES["tool"].replace("input_schema", "other"))]


@scenario
async def faulty_providers(stage: Stage) -> Any:
    """Providers with a fault in each member."""
    changes = {
        "ProviderInfo(id=self.name, display_name=self.name)": "{}",
        "        return ProviderInfo": "        raise OSError('x')\n        return ProviderInfo",
        "async def list_models": "def list_models",
        "async def complete": "def complete",
        "complete(self, request, **kwargs)": "complete(self)",
        "def parse_tool_calls(self, response)": "parse_tool_calls = 5\n\n    def other(self, response)",
        "self.name = name": 'self.name = ""',
    }
    return [await verdict(stage, "provider", SOURCES["provider"].replace(old, new)) for old, new in changes.items()]


@scenario
async def faulty_orchestrators_and_contexts(stage: Stage) -> Any:
    """Loops and contexts with faults."""
    return [
        await verdict(stage, "orchestrator", ORCHESTRATOR.replace("async def execute", "def execute")),
        await verdict(
            stage,
            "orchestrator",
            ORCHESTRATOR.replace("prompt, context, providers, tools, hooks, **kwargs", "prompt, **kwargs"),
        ),
        await verdict(stage, "context", CONTEXT.replace("async def clear", "def clear")),
        await verdict(stage, "context", CONTEXT.replace("add_message(self, message)", "add_message(self)")),
    ]


@scenario
async def hooks(stage: Stage) -> Any:
    """Hook modules: nothing, a callable object, a function, a bad object."""
    call = """
class Hook:
    {}def __call__(self, {}):
        return None


async def mount(coordinator, config=None):
    return Hook()
"""
    sources = (
        mounting("tool", ""),
        call.format("async ", "event, data"),
        call.format("", "event, data"),
        call.format("async ", "event"),
        mounting("tool", "", "lambda: None"),
    )
    return [await verdict(stage, "hook", source) for source in sources]


@scenario
async def ready_callbacks(stage: Stage) -> Any:
    """Ready callbacks that are sync, or take no coordinator."""
    callbacks = (
        "def on_session_ready(coordinator):",
        "async def on_session_ready():",
        "async def on_session_ready(coordinator=None):",
        "async def on_session_ready(*args):",
    )
    return [await verdict(stage, "tool", f"{SOURCES['tool']}\n\n{callback}\n    pass\n") for callback in callbacks]


@scenario
async def missing_paths(stage: Stage) -> Any:
    """Paths that do not exist, folders without a package, dotted names."""
    (stage.folder / "empty").mkdir()
    paths = (str(stage.folder / "absent"), str(stage.folder / "empty"), "no_such_package.at_all", "json")
    found = []
    for path in paths:
        result = await outcome(lambda path=path: ToolValidator().validate(path))
        found.append(result if isinstance(result, str) else [[c.name, c.passed, c.message] for c in result.checks])
    return found


@scenario
async def config_reaches_mount(stage: Stage) -> Any:
    """The config given to the validator reaches mount; without one it is empty."""
    source = SOURCES["tool"].replace(
        "    await coordinator.mount",
        "    if config != {'a': 1}:\n        raise ValueError(repr(config))\n    await coordinator.mount",
    )
    return [(await verdict(stage, "tool", source, config))[3][-1] for config in ({"a": 1}, None)]


@scenario
async def result_object(stage: Stage) -> Any:
    """The result by itself."""
    result = ValidationResult("tool", "path")
    empty = [result.passed, result.summary()]
    checks: list[Any] = [("a", True, "info"), ("b", False, "warning"), ("c", False, "error")]
    for name, passed, severity in checks:
        result.add(ValidationCheck(name, passed, f"{name}!", severity))
    return [
        empty,
        result.passed,
        result.summary(),
        [c.name for c in result.errors],
        [c.name for c in result.warnings],
        result,
    ]
