"""initialize(): the six phases, their order and what a failure in each does."""

from __future__ import annotations

from typing import Any

from amplifier_core.session import AmplifierSession

from .base import Stage, outcome, scenario
from .module_factory import CONTEXT, HOOK, ORCHESTRATOR, PROVIDER, TOOL, write_hook, write_module
from .parts import base_plan, is_up, started, watch, write_raising, write_traced

TRACED = """

async def mount(coordinator, config=None):
    coordinator.session_state.setdefault("trace", []).append(["mount", "{id}", config])
    return await _mount(coordinator, config)


async def on_session_ready(coordinator):
    coordinator.session_state["trace"].append(["ready", "{id}"])
"""


def write_everything_traced(stage: Stage) -> dict[str, Any]:
    """Write one traced module of every kind and return a plan in a scrambled order of sections."""
    sources = {
        "loop-traced": ORCHESTRATOR,
        "context-traced": CONTEXT,
        "provider-traced": PROVIDER.replace("{name}", "traced"),
        "tool-traced-a": TOOL.format(name="a"),
        "tool-traced-b": TOOL.format(name="b"),
        "hooks-traced": HOOK.replace("{name}", "traced"),
    }
    for module_id, source in sources.items():
        renamed = source.replace("async def mount", "async def _mount")
        write_module(stage.folder, module_id, renamed + TRACED.format(id=module_id))
    return {
        "hooks": [{"module": "hooks-traced"}],
        "tools": [{"module": "tool-traced-b", "config": {"n": 2}}, {"module": "tool-traced-a", "config": None}],
        "providers": [{"module": "provider-traced", "config": {"n": 1}}],
        "session": {
            "context": {"module": "context-traced"},
            "orchestrator": {"module": "loop-traced", "config": {"o": 1}},
        },
    }


@scenario
async def order_of_phases(stage: Stage) -> Any:
    """Orchestrator, context, providers, tools, hooks, then the ready callbacks in mount order."""
    session = AmplifierSession(write_everything_traced(stage))
    failed = await outcome(session.initialize)
    return [failed, session.coordinator.session_state.get("trace"), is_up(session)]


@scenario
async def order_with_traced_tools(stage: Stage) -> Any:
    """Tools mount in list order, every ready callback sees all of them, cleanups run in reverse."""
    plan = base_plan(stage)
    plan["tools"] = [write_traced(stage, "tool-one"), write_traced(stage, "tool-two")]
    session = await started(stage, plan)
    await session.cleanup()
    return session.coordinator.session_state["trace"]


@scenario
async def log_lines(stage: Stage) -> Any:
    """What is logged while a session is initialised."""
    plan = base_plan(stage, tools=1)
    write_hook(stage.folder, "hooks-bench", "bench-hook")
    plan["hooks"] = [{"module": "hooks-bench"}]
    session = AmplifierSession(plan, session_id="me")
    await session.initialize()
    return [line for line in stage.journal.lines if "Loading" in line or "initialized" in line]


@scenario
async def missing_orchestrator(stage: Stage) -> Any:
    """An orchestrator that cannot be found is fatal."""
    plan = base_plan(stage)
    plan["session"]["orchestrator"] = {"module": "loop-absent"}
    session = AmplifierSession(plan)
    text = await outcome(session.initialize)
    return [text, is_up(session), sorted(session.coordinator.mount_points["providers"])]


@scenario
async def raising_orchestrator(stage: Stage) -> Any:
    """An orchestrator whose mount raises is fatal; the cause is named."""
    plan = base_plan(stage)
    plan["session"]["orchestrator"] = write_raising(stage, "loop-raising")
    session = AmplifierSession(plan)
    return [await outcome(session.initialize), is_up(session)]


@scenario
async def raising_context(stage: Stage) -> Any:
    """A context whose mount raises is fatal."""
    plan = base_plan(stage)
    plan["session"]["context"] = write_raising(stage, "context-raising")
    session = AmplifierSession(plan)
    return [await outcome(session.initialize), is_up(session)]


@scenario
async def nothing_stays_after_a_fatal_phase(stage: Stage) -> Any:
    """What had been mounted before the context failed."""
    plan = base_plan(stage)
    plan["session"]["context"] = write_raising(stage, "context-fatal")
    session = AmplifierSession(plan)
    await outcome(session.initialize)
    return session.coordinator.mount_points["orchestrator"] is not None


@scenario
async def failing_tool_is_skipped(stage: Stage) -> Any:
    """A failing tool is a warning and an event; the others mount."""
    plan = base_plan(stage, tools=1)
    plan["tools"].insert(0, write_raising(stage, "tool-raising"))
    session = await started(stage, plan)
    return [stage.notes, stage.warnings()[-1:], sorted(session.coordinator.get("tools")), is_up(session)]


@scenario
async def failing_hook_is_skipped(stage: Stage) -> Any:
    """A failing hook is a warning and an event."""
    plan = base_plan(stage)
    plan["hooks"] = [write_raising(stage, "hooks-raising")]
    session = await started(stage, plan)
    return [stage.notes, stage.warnings()[-1:], is_up(session)]


@scenario
async def missing_tool(stage: Stage) -> Any:
    """A tool that cannot be found is a warning and an event."""
    plan = base_plan(stage)
    plan["tools"] = [{"module": "tool-nowhere"}]
    session = await started(stage, plan)
    return [stage.notes, is_up(session)]


@scenario
async def entry_without_module(stage: Stage) -> Any:
    """An entry that names no module is passed over."""
    plan = base_plan(stage, tools=1)
    plan["tools"].insert(0, {"config": {"a": 1}})
    plan["providers"].insert(0, {"config": {}})
    plan["hooks"] = [{}]
    session = await started(stage, plan)
    return [stage.notes, stage.warnings(), sorted(session.coordinator.get("tools"))]


@scenario
async def text_specs(stage: Stage) -> Any:
    """Orchestrator and context given by name take their config from the top level."""
    for module_id, source, name in (("loop-text", ORCHESTRATOR, "Loop()"), ("context-text", CONTEXT, "Context()")):
        keeping = source.replace(name, f"keep({name}, config)")
        write_module(
            stage.folder,
            module_id,
            keeping + "\n\ndef keep(made, config):\n    made.config = config\n    return made\n",
        )
    plan = {
        "session": {"orchestrator": "loop-text", "context": "context-text"},
        "orchestrator": {"config": {"a": 1}},
        "context": {"config": {"b": 2}},
    }
    session = AmplifierSession(plan)
    failed = await outcome(session.initialize)
    return [failed, *(getattr(session.coordinator.get(point), "config", None) for point in ("orchestrator", "context"))]


@scenario
async def initialise_twice(stage: Stage) -> Any:
    """A second call does nothing."""
    plan = base_plan(stage)
    plan["tools"] = [write_traced(stage, "tool-once")]
    session = await started(stage, plan)
    await session.initialize()
    return session.coordinator.session_state["trace"]


@scenario
async def ready_callback_raises(stage: Stage) -> Any:
    """A raising ready callback is a warning and an event; the next one runs."""
    plan = base_plan(stage)
    plan["tools"] = [{"module": "tool-unready"}, write_traced(stage, "tool-after")]
    ready = "\n\nasync def on_session_ready(coordinator):\n    raise ValueError('not ready')\n"
    write_module(stage.folder, "tool-unready", TOOL.format(name="unready") + ready)
    session = await started(stage, plan)
    return [stage.notes, stage.warnings()[-1:], session.coordinator.session_state["trace"], is_up(session)]


@scenario
async def sync_ready_callback(stage: Stage) -> Any:
    """A ready callback that is not async is skipped with a warning."""
    plan = base_plan(stage)
    entry = write_traced(stage, "tool-syncready")
    file = stage.folder / "amplifier_module_tool_syncready" / "__init__.py"
    file.write_text(file.read_text().replace("async def on_session_ready", "def on_session_ready"))
    plan["tools"] = [entry]
    session = await started(stage, plan)
    said = [line for line in stage.warnings() if "as sync" in line]
    return [session.coordinator.session_state.get("trace"), said, stage.notes]


@scenario
async def direct_modules_are_checked(stage: Stage) -> Any:
    """Modules of the wrong shape that come from the module path, without a resolver."""
    plan = base_plan(stage)
    shapeless = "async def mount(coordinator, config=None):\n    await coordinator.mount('tools', object(), name='x')\n"
    write_module(stage.folder, "tool-shapeless", shapeless)
    write_module(stage.folder, "tool-nothing", "async def mount(coordinator, config=None):\n    return None\n")
    plan["tools"] = [{"module": "tool-shapeless"}, {"module": "tool-nothing"}]
    session = await started(stage, plan)
    return [stage.notes, sorted(session.coordinator.get("tools"))]


@scenario
async def instance_returned_instead_of_mounted(stage: Stage) -> Any:
    """A tool that mount() returns without having mounted it."""
    plan = base_plan(stage)
    head = TOOL.format(name="given").split("async def mount")[0]
    write_module(
        stage.folder, "tool-given", f"{head}async def mount(coordinator, config=None):\n    return Tool(config)\n"
    )
    plan["tools"] = [{"module": "tool-given"}]
    session = await started(stage, plan)
    return [stage.notes, sorted(session.coordinator.get("tools"))]


@scenario
async def shape_of_load_calls(stage: Stage) -> Any:
    """How the loader is called for every module, and that the mount function gets the coordinator alone."""
    calls: list[Any] = []

    class Recording:
        async def load(self, *arguments: Any, **options: Any) -> Any:
            calls.append([list(arguments), sorted(options), options.get("source_hint")])

            async def mount(*given: Any) -> Any:
                calls.append([len(given)])
                return {"metadata": "ignored"}

            return mount

        def get_on_session_ready_queue(self) -> list[Any]:
            calls.append("queue")
            return []

        def clear_on_session_ready_queue(self) -> None:
            calls.append("clear")

        def enqueue_on_session_ready(self, *arguments: Any) -> None:
            calls.append("enqueue")

        def cleanup(self) -> None:
            calls.append("cleanup")

    plan = {
        "session": {
            "orchestrator": {"module": "loop-r", "source": "here"},
            "context": {"module": "context-r", "config": {"c": 1}},
        },
        "tools": [{"module": "tool-r", "source": "there", "config": {"t": 1}}],
        "hooks": [{"module": "hooks-r"}],
    }
    session = AmplifierSession(plan, loader=Recording())
    failed = await outcome(session.initialize)
    return [failed, calls, is_up(session)]


@scenario
async def fork_event(stage: Stage) -> Any:
    """A child session says so at the end of its initialisation."""
    plan = base_plan(stage)
    plan["session"]["metadata"] = {"why": "test"}
    await started(stage, plan, session_id="child", parent_id="mother")
    return stage.notes


@scenario
async def config_reaches_the_module_as_a_copy(stage: Stage) -> Any:
    """Whether a module that edits its config edits the plan."""
    source = """
class Tool:
    name = "editor"
    description = "Edits its config"
    async def execute(self, input):
        return None


async def mount(coordinator, config=None):
    config["edited"] = True
    await coordinator.mount("tools", Tool(), name="editor")
"""
    write_module(stage.folder, "tool-editor", source)
    plan = base_plan(stage)
    plan["tools"] = [{"module": "tool-editor", "config": {"a": 1}}]
    await started(stage, plan)
    return plan["tools"]


@scenario
async def concurrent_initialise(stage: Stage) -> Any:
    """Two tasks that initialise one session at the same time."""
    import asyncio

    plan = base_plan(stage)
    plan["tools"] = [write_traced(stage, "tool-race")]
    session = AmplifierSession(plan)
    watch(session.coordinator, stage.notes)
    await asyncio.gather(session.initialize(), session.initialize())
    return session.coordinator.session_state["trace"]
