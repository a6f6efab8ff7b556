"""initialize(): phases one to five, in order, with what each loads and what a failure does."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader


class SpyLoader(ModuleLoader):
    """The real loader, with a record of how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    async def load(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((*args, kwargs))
        return await super().load(*args, **kwargs)


@pytest.fixture
def plan(make_module: Any) -> dict[str, Any]:
    """Return a plan with one module of each kind, each noting when it mounts and gets ready."""
    kinds = {"loop-a": "orchestrator", "context-a": "context"}
    for module_id in ("loop-a", "context-a", "provider-a", "provider-b", "tool-a", "tool-b", "hooks-a", "hooks-b"):
        point = kinds.get(module_id)
        put = {
            "provider": f'await coordinator.mount("providers", Part("{module_id[-1]}"))',
            "tool": f'await coordinator.mount("tools", Part("{module_id[-1]}"))',
            "hooks": 'coordinator.hooks.register("x:y", lambda event, data: None)',
        }.get(module_id.partition("-")[0], f'await coordinator.mount("{point}", Part("x"))')
        make_module(
            module_id,
            f"""
            from amplifier_core import ProviderInfo

            class Part:
                description = "d"
                def __init__(self, name): self.name = name
                def get_info(self): return ProviderInfo(id=self.name, display_name=self.name)
                def parse_tool_calls(self, response): return []
                async def list_models(self): return []
                async def complete(self, request, **kwargs): return None
                async def add_message(self, message): ...
                async def get_messages_for_request(self, token_budget=None, provider=None): return []
                async def get_messages(self): return []
                async def set_messages(self, messages): ...
                async def clear(self): ...
                async def execute(self, prompt=None, context=None, providers=None, tools=None, hooks=None, **rest):
                    return "done"

            def note(coordinator, what):
                seen = coordinator.get_capability("order") or []
                coordinator.register_capability("order", [*seen, what])

            async def mount(coordinator, config):
                note(coordinator, "mount {module_id}")
                {put}

            async def on_session_ready(coordinator):
                note(coordinator, "ready {module_id}")
            """,
        )
    return {
        "hooks": [{"module": "hooks-a"}, {"module": "hooks-b"}],
        "tools": [{"module": "tool-a"}, {"module": "tool-b"}],
        "providers": [{"module": "provider-a"}, {"module": "provider-b"}],
        "session": {"context": {"module": "context-a"}, "orchestrator": {"module": "loop-a"}},
    }


async def test_log_lines(plan: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Each load is announced at INFO with the published text, and the end as well."""
    plan["providers"][1]["instance_id"] = "second"
    session = AmplifierSession(plan, session_id="s1")

    with caplog.at_level(logging.INFO, "amplifier_core"):
        await session.initialize()

    lines = [line for line in caplog.messages if line.startswith(("Loading", "Session"))]
    assert lines == [
        "Loading orchestrator: loop-a",
        "Loading context manager: context-a",
        "Loading provider: provider-a",
        "Loading provider: provider-b (instance: second)",
        "Loading tool: tool-a",
        "Loading tool: tool-b",
        "Loading hook: hooks-a",
        "Loading hook: hooks-b",
        "Session s1 initialized successfully",
    ]


async def test_specs_given_as_strings(plan: dict[str, Any]) -> None:
    """As strings, the source stands beside them and the config in the top-level sections of their names."""
    plan["session"] = {
        "orchestrator": "loop-a",
        "orchestrator_source": "there",
        "context": "context-a",
        "context_source": "here",
    }
    plan["orchestrator"] = {"config": {"a": 1}}
    plan["context"] = {"config": {"b": 2}}
    loader = SpyLoader()
    session = AmplifierSession(plan, loader)

    await session.initialize()

    extra = {"coordinator": session.coordinator}
    assert loader.calls[0] == ("loop-a", {"a": 1}, {"source_hint": "there", **extra})
    assert loader.calls[1] == ("context-a", {"b": 2}, {"source_hint": "here", **extra})


async def test_default_modules(plan: dict[str, Any]) -> None:
    """A dict without a module means loop-basic and context-simple."""
    asked: list[str] = []

    class Loader:
        async def load(self, module_id: str, *_: Any, **__: Any) -> Any:
            async def mount(coordinator: Any) -> None:
                asked.append(module_id)

            return mount

    session = {"orchestrator": {"config": {"x": 1}}, "context": {"config": {"x": 1}}}
    await AmplifierSession({"session": session}, Loader()).initialize()

    assert asked == ["loop-basic", "context-simple"]


async def test_missing_sections_and_agents(plan: dict[str, Any]) -> None:
    """Sections may be absent, None or tuples, and `agents` is none of the kernel's business."""
    plan.update(providers=None, tools=tuple(plan["tools"]), agents={"anything": object()})
    del plan["hooks"]
    session = AmplifierSession(plan)

    await session.initialize()

    assert list(session.coordinator.get("tools")) == ["a", "b"]
    assert session.coordinator.get("providers") == {}


@pytest.mark.parametrize(("section", "title"), [("orchestrator", "orchestrator"), ("context", "context manager")])
async def test_fatal_phases(plan: dict[str, Any], make_module: Any, section: str, title: str) -> None:
    """Without orchestrator or context there is no session: a RuntimeError with the kind and the module's own error."""
    make_module("broken", "async def mount(coordinator, config):\n    raise KeyError('no key')")
    plan["session"][section] = {"module": "broken"}
    session = AmplifierSession(plan)

    with pytest.raises(RuntimeError) as caught:
        await session.initialize()

    assert str(caught.value) == f"Cannot initialize without {title}: 'no key'"
    assert type(caught.value.__cause__) is KeyError
    assert vars(caught.value) == {"module_type": section}
    assert session.initialized is False


async def test_error_text_is_safe(plan: dict[str, Any], make_module: Any) -> None:
    """An error whose str() raises UnicodeDecodeError is described by its repr()."""
    make_module(
        "broken",
        """
        class Bad(Exception):
            def __str__(self): return b"\\xff".decode()
            def __repr__(self): return "Bad(repr)"
        async def mount(coordinator, config):
            raise Bad
        """,
    )
    plan["session"]["orchestrator"] = "broken"

    with pytest.raises(RuntimeError, match=r"^Cannot initialize without orchestrator: Bad\(repr\)$"):
        await AmplifierSession(plan).initialize()


@pytest.mark.parametrize(
    ("section", "kind", "good"), [("providers", "provider", "a"), ("tools", "tool", "a"), ("hooks", "hook", None)]
)
async def test_failing_module_is_reported_and_left_out(
    plan: dict[str, Any],
    make_module: Any,
    listen: Any,
    caplog: pytest.LogCaptureFixture,
    section: str,
    kind: str,
    good: str | None,
) -> None:
    """A failing provider, tool or hook is a warning with traceback and an event, and the next ones still mount."""
    make_module(f"{kind}-broken", "async def mount(coordinator, config):\n    raise OSError('no disk')")
    plan[section].insert(0, {"module": f"{kind}-broken"})
    session = AmplifierSession(plan)
    heard = listen(session)

    await session.initialize()

    [(event, data)] = heard
    assert event == "module:load_failed"
    assert data.pop("timestamp")
    assert data == {
        "session_id": session.session_id,
        "parent_id": None,
        "module_type": kind,
        "module_id": f"{kind}-broken",
        "error": "no disk",
        "reason_code": "unknown",
    }
    [record] = [record for record in caplog.records if "Failed to load" in record.message]
    assert record.message == f"Failed to load {kind} '{kind}-broken': no disk"
    assert record.levelname == "WARNING"
    assert record.exc_info is not None
    assert good is None or good in session.coordinator.get(section)
    assert session.initialized


async def test_error_without_text_is_named(plan: dict[str, Any], make_module: Any, listen: Any) -> None:
    """An exception that says nothing is reported by its type: an empty error helps nobody."""
    make_module("tool-mute", "async def mount(coordinator, config):\n    raise AssertionError")
    plan["tools"] = [{"module": "tool-mute"}]
    session = AmplifierSession(plan)
    heard = listen(session)

    await session.initialize()

    assert heard[0][1]["error"] == "AssertionError"


async def test_trouble_in_telling_is_no_trouble_in_starting(plan: dict[str, Any], make_module: Any) -> None:
    """A registry that raises while a failure is reported does not end the start."""
    make_module("tool-broken", "async def mount(coordinator, config):\n    raise OSError")
    plan["tools"].insert(0, {"module": "tool-broken"})
    session = AmplifierSession(plan)

    async def broken_emit(event: str, data: Any) -> None:
        raise RuntimeError("no bus")

    session.coordinator.hooks.emit = broken_emit  # type: ignore[method-assign, assignment]

    await session.initialize()

    assert list(session.coordinator.get("tools")) == ["a", "b"]


async def test_returned_callables_become_cleanups(plan: dict[str, Any], make_module: Any) -> None:
    """What mount() returns is run at the end if it can be called; anything else is ignored."""
    make_module(
        "hooks-callable",
        """
        async def mount(coordinator, config):
            return lambda: coordinator.register_capability("cleaned", True)
        """,
    )
    make_module("hooks-dict", "async def mount(coordinator, config):\n    return {'name': 'metadata'}")
    plan["hooks"] = [{"module": "hooks-callable"}, {"module": "hooks-dict"}]
    session = AmplifierSession(plan)

    await session.initialize()
    await session.cleanup()

    assert session.coordinator.get_capability("cleaned") is True


async def test_fork_event_comes_last(plan: dict[str, Any], listen: Any, make_module: Any) -> None:
    """A child announces itself with session:fork, after phase 6; a root says nothing."""
    make_module(
        "hooks-late",
        """
        async def mount(coordinator, config): ...
        async def on_session_ready(coordinator):
            await coordinator.hooks.emit("late:ready", {})
        """,
    )
    plan["hooks"] = [{"module": "hooks-late"}]
    root, child = AmplifierSession(plan), AmplifierSession(plan, session_id="c", parent_id="p")
    heard_root, heard_child = listen(root), listen(child)

    await root.initialize()
    await child.initialize()

    assert [event for event, _ in heard_root] == ["late:ready"]
    assert [event for event, _ in heard_child] == ["late:ready", "session:fork"]
    fork = heard_child[1][1]
    assert (fork["parent"], fork["session_id"], fork["parent_id"]) == ("p", "c", "p")
    assert "metadata" not in fork
    assert "raw" not in fork
