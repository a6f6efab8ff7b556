"""Creating modules: the Iron Law with its exact text, the complete example, the placeholder and the minimum."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ModuleLoader, ModuleValidationError, ToolResult
from amplifier_core.coordinator import mount
from amplifier_core.validation import ContextValidator, OrchestratorValidator, ProviderValidator, ToolValidator

IRON_LAW = "protocol_compliance: No tool was mounted and mount() did not return a Tool instance"
REFUSAL = f"Module 'tool-stub' failed validation: FAILED: 3/4 checks passed (1 errors, 0 warnings). Errors: {IRON_LAW}"

PENDING = "Tool not yet implemented. Phase 2 will add full functionality. Use the shell scripts in the bundle for now."

#: What people write instead of a placeholder, with the excuse they give.
STUBS = {
    "log and return None": """
        import logging

        async def mount(coordinator, config=None):
            logging.getLogger(__name__).info("tool-stub mounted")
    """,
    "just a stub": "async def mount(coordinator, config=None): ...",
    "phase 2 will fill it in": """
        PHASE = 1

        async def mount(coordinator, config=None):
            if PHASE >= 2:
                await coordinator.mount("tools", object(), name="stub")
            return None
    """,
    "a TODO comment": """
        async def mount(coordinator, config=None):
            # TODO: await coordinator.mount("tools", tool, name=tool.name)
            return None
    """,
    "the signature is all that matters": """
        from typing import Any

        async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> dict[str, Any]:
            return {"name": "tool-stub", "version": "0.1.0", "provides": []}
    """,
    "a tool class that nobody registers": """
        from amplifier_core.testing import MockTool

        async def mount(coordinator, config=None):
            tool = MockTool("stub")
            return {"name": "tool-stub", "provides": [tool.name]}
    """,
}


@pytest.mark.parametrize("stub", STUBS.values(), ids=STUBS)
async def test_iron_law_in_a_live_session(bench: Any, record: Any, stub: str) -> None:
    """A mount() that registers nothing is refused with the exact text, however it is excused, and the rest runs."""
    bench.install("tool-stub", stub)
    session = bench.session(bench.plan(tools=["tool-stub"]))
    heard = record(session)
    async with session:
        assert session.coordinator.get("tools") == {}
        assert await session.execute("hi") == "echo: hi"
    (failure,) = heard.data("module:load_failed")
    assert failure["error"] == REFUSAL
    assert (failure["module_type"], failure["module_id"]) == ("tool", "tool-stub")
    assert failure["reason_code"] == "validation_failed"


@pytest.mark.parametrize("stub", STUBS.values(), ids=STUBS)
async def test_iron_law_in_the_validator(bench: Any, stub: str) -> None:
    """The validator says the same words as the session."""
    result = await ToolValidator().validate(bench.install("tool-stub", stub))
    assert [f"{check.name}: {check.message}" for check in result.errors] == [IRON_LAW]
    assert result.summary() == "FAILED: 3/4 checks passed (1 errors, 0 warnings)"


async def test_iron_law_for_a_module_from_a_source(bench: Any, record: Any) -> None:
    """A stub that a resolver finds in a folder is refused in the same words."""
    bench.folder("tool-stub", STUBS["just a stub"])
    session = bench.session(bench.plan(tools=[{"module": "tool-stub", "source": "./modules/tool-stub"}]))
    heard = record(session)
    await session.coordinator.mount("module-source-resolver", bench.resolver)
    async with session:
        pass
    assert [data["error"] for data in heard.data("module:load_failed")] == [REFUSAL]


async def test_validation_runs_every_time_a_session_loads(bench: Any, record: Any) -> None:
    """A broken mount() fails now, in the first session and in every one after it, children included."""
    bench.install("tool-stub", STUBS["just a stub"])
    loader = ModuleLoader()
    for parent in (None, "p", None):
        session = bench.session(bench.plan(tools=["tool-stub"]), loader=loader, parent_id=parent)
        heard = record(session)
        async with session:
            pass
        assert [data["error"] for data in heard.data("module:load_failed")] == [REFUSAL]


@pytest.mark.parametrize(
    ("kind", "validator", "message"),
    [
        (
            "orchestrator",
            OrchestratorValidator,
            "No orchestrator was mounted and mount() did not return an Orchestrator instance",
        ),
        ("context", ContextValidator, "No context was mounted and mount() did not return a ContextManager instance"),
        ("provider", ProviderValidator, "No provider was mounted and mount() did not return a Provider instance"),
    ],
)
async def test_iron_law_of_the_other_kinds(bench: Any, record: Any, kind: str, validator: Any, message: str) -> None:
    """The law holds for every kind that mounts an object; without orchestrator or context nothing starts."""
    package = bench.install(f"{kind}-stub", "async def mount(coordinator, config=None): ...")
    result = await validator().validate(package)
    assert [check.message for check in result.errors] == [message]
    section = (
        {"providers": [{"module": "provider-stub"}]} if kind == "provider" else {"session": {kind: f"{kind}-stub"}}
    )
    session = bench.session(bench.plan(**section))
    heard = record(session)
    if kind == "provider":
        await session.initialize()
        assert message in heard.data("module:load_failed")[0]["error"]
    else:
        with pytest.raises(
            RuntimeError, match=rf"Cannot initialize without {kind}.*protocol_compliance: {message[:20]}"
        ):
            await session.initialize()
    await session.cleanup()


async def test_hooks_are_free_to_register_later(bench: Any) -> None:
    """The law is per kind: a hook may defer everything to on_session_ready."""
    bench.install("hooks-deferring", "async def mount(coordinator, config=None): ...")
    session = bench.session(bench.plan(hooks=["hooks-deferring"]))
    async with session:
        assert await session.execute("hi") == "echo: hi"


async def test_or_return_a_tool_instance(bench: Any) -> None:
    """A mount() that returns a tool instead of mounting it keeps the law: the kernel mounts it under its name."""
    source = """
        from amplifier_core.testing import MockTool

        async def mount(coordinator, config=None):
            return MockTool("returned", output="it works")
    """
    package = bench.install("tool-returning", source)
    assert (await ToolValidator().validate(package)).passed
    async with bench.session(bench.plan(tools=["tool-returning"])) as session:
        assert await session.execute("returned") == "it works"


@pytest.mark.parametrize("place", ["installed", "folder"])
@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("complete", '{"param": "this"}', "worked on this"),
        (
            "placeholder",
            '{"operation": "x"}',
            PENDING,
        ),
        ("minimum", "{}", "Not yet implemented"),
    ],
)
async def test_example_module(bench: Any, example: Any, place: str, name: str, arguments: str, answer: str) -> None:
    """Each example validates with eight passing checks, mounts in a session and answers, installed or from a folder."""
    source, entry = example(name), {"module": "tool-my-tool"}
    if place == "installed":
        package = bench.install("tool-my-tool", source)
    else:
        package = bench.folder("tool-my-tool", source) / "amplifier_module_tool_my_tool"
        entry["source"] = "./modules/tool-my-tool"
    session = bench.session(bench.plan(tools=[entry]))
    if place == "folder":
        await session.coordinator.mount("module-source-resolver", bench.resolver)
    async with session:
        tool = session.coordinator.get("tools", "my_tool")
        assert isinstance(await tool.execute({"param": "p"}), ToolResult)
        assert await session.execute(f"my_tool {arguments}") == answer
    result = await ToolValidator().validate(package)
    assert result.summary() == "PASSED: 8/8 checks passed (0 errors, 0 warnings)"


async def test_placeholder_is_a_real_tool(bench: Any, example: Any) -> None:
    """A placeholder has everything a tool has; it only tells its callers that it does nothing yet."""
    bench.install("tool-my-tool", example("placeholder"))
    async with bench.session(bench.plan(tools=["tool-my-tool"])) as session:
        tool = session.coordinator.get("tools", "my_tool")
        assert tool.input_schema["required"] == ["operation"]
        assert tool.description.endswith("Phase 2 implementation pending.")
        result = await tool.execute({"operation": "x"})
        assert (result.success, result.output[:24]) == (False, "Tool not yet implemented")


async def test_loader_alone_raises_the_validation_error(bench: Any) -> None:
    """Asked by a session through its loader, the refusal is a ModuleValidationError with the same text."""
    bench.install("tool-stub", STUBS["just a stub"])
    async with bench.session() as session:
        with pytest.raises(ModuleValidationError) as refused:
            await mount("tools", "tool-stub", session_id=session.session_id)
        assert str(refused.value) == REFUSAL
        assert session.coordinator.get("tools") == {}
