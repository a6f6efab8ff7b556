"""on_session_ready(): the signature, every guarantee, every design decision and every gotcha of its story."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader
from amplifier_core.events import ALL_EVENTS, MODULE_ON_SESSION_READY_FAILED

LOOKING = '''
def look(coordinator, who):
    """Note what is mounted when `who` looks."""
    coordinator.session_state.setdefault("seen", {})[who] = {
        "orchestrator": coordinator.get("orchestrator") is not None,
        "context": coordinator.get("context") is not None,
        "providers": sorted(coordinator.get("providers")),
        "tools": sorted(coordinator.get("tools")),
        "hooks": sorted(coordinator.hooks.list_handlers("x:y")["x:y"]),
    }


async def on_session_ready(coordinator):
    look(coordinator, WHO + " ready")


async def mount(coordinator, config=None):
    look(coordinator, WHO)
    await install(coordinator)
'''

KINDS = {
    "loop-look": "from amplifier_module_loop_seed import Loop\n\n"
    'async def install(c): await c.mount("orchestrator", Loop())\n',
    "context-look": "from amplifier_module_context_seed import Context\n\n"
    'async def install(c): await c.mount("context", Context())\n',
    "provider-look": "from amplifier_module_provider_seed import Echo\n\n"
    'async def install(c): await c.mount("providers", Echo(), name="echo")\n',
    "provider-other": "from amplifier_module_provider_seed import Echo\n\n"
    'async def install(c): await c.mount("providers", Echo(), name="other")\n',
    "tool-look": "from amplifier_core.testing import MockTool\n\n"
    'async def install(c): await c.mount("tools", MockTool("look"))\n',
    "hooks-first": 'async def install(c): c.hooks.register("x:y", print, name="first")\n',
    "hooks-last": 'async def install(c): c.hooks.register("x:y", print, name="last")\n',
}

FULL = {
    "orchestrator": True,
    "context": True,
    "providers": ["echo", "other"],
    "tools": ["look"],
    "hooks": ["first", "last"],
}


async def look_around(bench: Any) -> dict[str, Any]:
    for module_id, source in KINDS.items():
        bench.install(module_id, f"WHO = {module_id!r}\n{source}\n{LOOKING}")
    plan = bench.plan(
        session={"orchestrator": {"module": "loop-look"}, "context": {"module": "context-look"}},
        providers=[{"module": "provider-look"}, {"module": "provider-other"}],
        tools=["tool-look"],
        hooks=["hooks-first", "hooks-last"],
    )
    async with bench.session(plan) as session:
        seen: dict[str, Any] = session.coordinator.session_state["seen"]
    return seen


async def test_modules_mount_in_the_dark(bench: Any) -> None:
    """In mount() each phase sees those before it and nothing of its own or later ones."""
    seen = await look_around(bench)
    empty = {"orchestrator": False, "context": False, "providers": [], "tools": [], "hooks": []}
    assert seen["loop-look"] == empty
    assert seen["context-look"] == {**empty, "orchestrator": True}
    assert seen["provider-look"] == {**empty, "orchestrator": True, "context": True}
    assert seen["provider-other"] == {**seen["provider-look"], "providers": ["echo"]}
    assert seen["tool-look"] == {**seen["provider-look"], "providers": ["echo", "other"]}
    assert seen["hooks-first"] == {**FULL, "hooks": []}
    assert seen["hooks-last"] == {**FULL, "hooks": ["first"]}


async def test_on_session_ready_sees_everyone(bench: Any) -> None:
    """In on_session_ready() every module, the very first included, sees the complete coordinator."""
    seen = await look_around(bench)
    assert [seen[f"{module_id} ready"] for module_id in KINDS] == [FULL] * len(KINDS)


async def test_ready_runs_in_mount_order_after_every_mount(bench: Any) -> None:
    """The callbacks run one after the other in mount order, when the last mount is done."""
    seen = await look_around(bench)
    assert list(seen) == [*KINDS, *(f"{module_id} ready" for module_id in KINDS)]


HOOK = """
async def mount(coordinator, config=None):
    coordinator.hooks.register("x:y", lambda event, data: None, name=config.get("name", "{id}"))
    {in_mount}


{ready}
"""

WAITING = """
async def on_session_ready(coordinator):
    await coordinator.get_capability("go-on").wait()
"""


def hook(bench: Any, module_id: str, ready: str, in_mount: str = "pass") -> None:
    bench.install(module_id, HOOK.format(id=module_id, ready=ready, in_mount=in_mount))


def noting(module_id: str) -> str:
    return (
        "async def on_session_ready(coordinator):\n"
        f"    coordinator.session_state.setdefault('ready', []).append({module_id!r})\n"
    )


async def test_callback_gets_the_coordinator_and_nothing_else(bench: Any) -> None:
    """Config belongs in mount(): the callback has one argument, the session's own coordinator."""
    ready = (
        "async def on_session_ready(coordinator, *rest, **named):\n"
        "    coordinator.session_state['got'] = (coordinator, rest, named)\n"
    )
    hook(bench, "hooks-args", ready)
    async with bench.session(bench.plan(hooks=[{"module": "hooks-args", "config": {"name": "n"}}])) as session:
        assert session.coordinator.session_state["got"] == (session.coordinator, (), {})


async def test_return_value_is_ignored(bench: Any) -> None:
    """Whatever the callback returns is dropped; a function is not taken for a cleanup."""
    ready = (
        "async def on_session_ready(coordinator):\n"
        "    return lambda: coordinator.session_state.__setitem__('cleaned', True)\n"
    )
    hook(bench, "hooks-returns", ready)
    session = bench.session(bench.plan(hooks=["hooks-returns"]))
    async with session:
        pass
    assert "cleaned" not in session.coordinator.session_state


async def test_the_loader_finds_it_without_an_entry_point(bench: Any) -> None:
    """The mount function of a module with the callback carries `__on_session_ready__`; no other does."""
    hook(bench, "hooks-with", noting("hooks-with"))
    hook(bench, "hooks-without", "")
    loader = ModuleLoader()
    with_callback = await loader.load("hooks-with")
    module_id, callback = with_callback.__on_session_ready__  # type: ignore[attr-defined]
    assert (module_id, callback.__name__) == ("hooks-with", "on_session_ready")
    assert not hasattr(await loader.load("hooks-without"), "__on_session_ready__")


async def test_sync_callback_is_skipped_with_a_warning(
    bench: Any, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A sync callback is never called: a warning in the log, the failure event, and everyone else goes on."""
    hook(bench, "hooks-sync", "def on_session_ready(coordinator):\n    coordinator.session_state['called'] = True\n")
    hook(bench, "hooks-after", noting("hooks-after"))
    session = bench.session(bench.plan(hooks=["hooks-sync", "hooks-after"]))
    heard = record(session)
    with caplog.at_level(logging.WARNING):
        async with session:
            assert session.coordinator.session_state == {"ready": ["hooks-after"]}
            assert "hooks-sync" in session.coordinator.hooks.list_handlers("x:y")["x:y"]
    warning = "Module 'hooks-sync' defines on_session_ready() as sync — must be async. Skipping."
    assert warning in caplog.messages
    assert [data["module_id"] for data in heard.data(MODULE_ON_SESSION_READY_FAILED)] == ["hooks-sync"]


async def test_failure_is_isolated_and_observable(bench: Any, record: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One failing callback blocks neither the others nor the session, and reports itself on the event bus."""
    hook(bench, "hooks-one", noting("hooks-one"))
    hook(bench, "hooks-bad", "async def on_session_ready(coordinator):\n    raise ValueError('no such tool')\n")
    hook(bench, "hooks-two", noting("hooks-two"))
    session = bench.session(bench.plan(hooks=["hooks-one", "hooks-bad", "hooks-two"]))
    heard = record(session)
    async with session:
        assert session.coordinator.session_state["ready"] == ["hooks-one", "hooks-two"]
        assert await session.execute("hi") == "echo: hi"
    (failure,) = heard.data("module:on_session_ready_failed")
    assert (failure["module_id"], failure["error"]) == ("hooks-bad", "no such tool")
    assert "on_session_ready for 'hooks-bad' raised: no such tool" in caplog.messages


async def test_fires_before_session_fork(bench: Any, record: Any) -> None:
    """A child is announced when its modules are ready, not before."""
    ready = "async def on_session_ready(coordinator):\n    await coordinator.hooks.emit('ready:here', {})\n"
    hook(bench, "hooks-tell", ready)
    session = bench.session(bench.plan(hooks=["hooks-tell"]), parent_id="p")
    heard = record(session)
    async with session:
        assert heard.names == ["ready:here", "session:fork"]


async def test_queue_is_drained(bench: Any) -> None:
    """After initialize nothing is queued, and a second initialize dispatches nothing again."""
    hook(bench, "hooks-once", noting("hooks-once"))
    async with bench.session(bench.plan(hooks=["hooks-once"])) as session:
        assert session.loader.get_on_session_ready_queue() == []
        await session.initialize()
        await session.execute("hi")
        assert session.coordinator.session_state["ready"] == ["hooks-once"]


async def test_children_run_their_own_pass(bench: Any) -> None:
    """A child with the parent's loader runs its own callbacks; the parent's do not run again."""
    hook(bench, "hooks-parent", noting("hooks-parent"))
    hook(bench, "hooks-both", noting("hooks-both"))
    async with bench.session(bench.plan(hooks=["hooks-parent", "hooks-both"])) as parent:
        plan = bench.plan(hooks=["hooks-both"])
        async with bench.session(plan, loader=parent.loader, parent_id=parent.session_id) as child:
            assert child.coordinator.session_state["ready"] == ["hooks-both"]
            assert parent.coordinator.session_state["ready"] == ["hooks-parent", "hooks-both"]


async def test_child_started_by_a_callback_does_not_disturb_the_parent(bench: Any) -> None:
    """A callback that spawns a child on the shared loader meets its own queue unharmed afterwards."""
    ready = (
        "from amplifier_core import AmplifierSession\n"
        "async def on_session_ready(coordinator):\n"
        "    plan = {**coordinator.config, 'hooks': [{'module': 'hooks-both'}]}\n"
        "    async with AmplifierSession(plan, coordinator.loader, None, coordinator.session_id) as child:\n"
        "        coordinator.session_state['child'] = child.coordinator.session_state['ready']\n"
    )
    hook(bench, "hooks-spawning", ready)
    hook(bench, "hooks-both", noting("hooks-both"))
    async with bench.session(bench.plan(hooks=["hooks-spawning", "hooks-both"])) as parent:
        assert parent.coordinator.session_state == {"child": ["hooks-both"], "ready": ["hooks-both"]}


@pytest.mark.parametrize("kind", ["tool", "hook"])
async def test_failed_mount_gets_no_callback(bench: Any, kind: str) -> None:
    """A module whose mount() raised, or kept nothing of the contract, hears nothing of phase 6."""
    hook(bench, f"{kind}-raising", noting("raising"), in_mount="raise RuntimeError('no')")
    bench.install("tool-noop", f"async def mount(coordinator, config=None): ...\n\n{noting('noop')}")
    hook(bench, "hooks-fine", noting("fine"))
    tools = ["tool-noop", *(["tool-raising"] if kind == "tool" else [])]
    hooks = [*(["hook-raising"] if kind == "hook" else []), "hooks-fine"]
    async with bench.session(bench.plan(tools=tools, hooks=hooks)) as session:
        assert session.coordinator.session_state["ready"] == ["fine"]


async def test_no_timeout_is_enforced_by_default(bench: Any) -> None:
    """Without a deadline in the plan a slow callback holds the session for as long as it takes."""
    go_on = asyncio.Event()
    hook(bench, "hooks-slow", WAITING)
    session = bench.session(bench.plan(hooks=["hooks-slow"]))
    session.coordinator.register_capability("go-on", go_on)
    starting = asyncio.create_task(session.initialize())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not starting.done()
    go_on.set()
    await starting
    assert session.initialized
    await session.cleanup()


async def test_the_callers_budget_can_end_a_hanging_start(bench: Any) -> None:
    """A caller who gives up on initialize() is heard, nothing stays mounted, and the session can be started later."""
    go_on = asyncio.Event()
    hook(
        bench,
        "hooks-slow",
        "async def on_session_ready(coordinator):\n    await coordinator.get_capability('go-on').wait()\n",
    )
    session = bench.session(bench.plan(hooks=["hooks-slow"]))
    session.coordinator.register_capability("go-on", go_on)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.initialize(), 0.05)
    assert not session.initialized
    assert session.coordinator.get("providers") == {}
    go_on.set()
    async with session:
        assert await session.execute("hi") == "echo: hi"


async def test_deadline_of_the_plan(bench: Any, record: Any) -> None:
    """With `session.ready_timeout` a hanging callback is a timeout event and the session starts."""
    hook(
        bench,
        "hooks-hang",
        "import asyncio\nasync def on_session_ready(coordinator):\n    await asyncio.Event().wait()\n",
    )
    hook(bench, "hooks-fine", noting("fine"))
    session = bench.session(bench.plan(hooks=["hooks-hang", "hooks-fine"], session={"ready_timeout": 0.05}))
    session.coordinator.register_capability("go-on", asyncio.Event())
    heard = record(session)
    async with session:
        assert session.coordinator.session_state["ready"] == ["fine"]
        assert await session.execute("hi") == "echo: hi"
    (failure,) = heard.data(MODULE_ON_SESSION_READY_FAILED)
    assert failure["module_id"] == "hooks-hang"
    assert "timeout" in failure["error"]


async def test_phase_six_as_the_story_writes_it(caplog: pytest.LogCaptureFixture) -> None:
    """The loop of `_session_init.py` that the story shows runs on the loader and coordinator there are."""
    loader, coordinator, logger = ModuleLoader(), ModuleCoordinator(), logging.getLogger("story")
    called: list[str] = []
    failures: list[dict[str, Any]] = []
    coordinator.hooks.register(MODULE_ON_SESSION_READY_FAILED, lambda event, data: failures.append(data))

    async def good(coordinator: ModuleCoordinator) -> None:
        called.append("good")

    async def bad(coordinator: ModuleCoordinator) -> None:
        raise RuntimeError("broken")

    loader.enqueue_on_session_ready("hooks-bad", bad)
    loader.enqueue_on_session_ready("hooks-good", good)

    on_session_ready_queue = loader.get_on_session_ready_queue()  # sync
    for module_id, on_session_ready_fn in on_session_ready_queue:
        try:
            await on_session_ready_fn(coordinator)
        except Exception as e:
            logger.warning(f"on_session_ready for '{module_id}' raised")
            await coordinator.hooks.emit(
                MODULE_ON_SESSION_READY_FAILED,  # observable — new event #42
                {"module_id": module_id, "error": str(e)},
            )
    loader.clear_on_session_ready_queue()  # drain — prevents double-dispatch

    assert called == ["good"]
    assert [(data["module_id"], data["error"]) for data in failures] == [("hooks-bad", "broken")]
    assert loader.get_on_session_ready_queue() == []


def test_event_number_42() -> None:
    """module:on_session_ready_failed is the 42nd canonical event; the 41 before it are as they were."""
    assert ALL_EVENTS[41] == MODULE_ON_SESSION_READY_FAILED == "module:on_session_ready_failed"
    assert len(set(ALL_EVENTS[:42])) == 42
