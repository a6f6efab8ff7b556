"""Between the program and modules of others, what can be awaited is awaited, in one way."""

import ast
import asyncio
import gc
import re
import sys
import types
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from amplifier_core.models import HookResult
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_testing.loop.fakes import ListContext, PlainTool, ScriptedProvider, call, say

ROOT = Path(__file__).resolve().parent.parent
#: Methods of contexts, providers, approval systems and displays, which modules write as `def` or as `async def`.
METHODS = frozenset(
    {
        *("add_message", "get_messages", "set_messages", "get_messages_for_request", "should_compact", "compact"),
        *("set_system_prompt_factory", "complete", "list_models", "get_info", "get_model_info", "parse_tool_calls"),
        *("request_approval", "show_message"),
    }
)
_NAMED = re.compile(rf"\b(?:{'|'.join(sorted(METHODS))})\b")
#: What takes the result of a call of foreign code.
TAKERS = frozenset({"maybe_await", "plain_result", "await_soon"})
#: Objects of ours with methods of these names: (end of the path, method).
OWN = {
    ("sessions/checkpoints.py", "complete"),  # a log of checkpoints
    ("validation/provider.py", "get_info"),  # a validator, which says that it must be sync
}
#: They stand in for modules, or check that one keeps the documented form.
STAND_INS = {"testing.py", "testing", "conformance.py", "behavioral"}
#: Where a coroutine is told from a value for another reason than to await it.
TELLING_APART = {
    "amplifier_core/bounded_call.py",  # drives coroutines itself
    "amplifier_core/validation/provider.py",  # a validator that says what is wrong
    "amplifier_kit/awaitable.py",
    "amplifier_kit/engine/delegation/request.py",  # a spawn that gives nothing to await is refused
}


def _sources() -> Iterator[Path]:
    packages = [*ROOT.glob("amplifier-*/amplifier_*"), *ROOT.glob("modules/*/amplifier_module_*")]
    for package in packages:
        if package.name not in ("amplifier_digital_twin", "amplifier_testing"):
            yield from (path for path in sorted(package.rglob("*.py")) if not STAND_INS & set(path.parts))


def _bare_calls(path: Path) -> Iterator[str]:
    """Yield the calls of foreign methods whose result nobody makes sure of."""
    source = path.read_text(encoding="utf-8")
    if not _NAMED.search(source):
        return
    tree = ast.parse(source)
    taken: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TAKERS:
            taken.update(map(id, node.args))
        if isinstance(node, ast.Assign | ast.Return) and isinstance(node.value, ast.Call):
            # `shown = display.show_message(...)` in the line before `await_soon(shown, ...)`
            names = {one.id for one in getattr(node, "targets", ()) if isinstance(one, ast.Name)}
            if any(re.search(rf"await_soon\({name}\b", source) for name in names):
                taken.add(id(node.value))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
            continue
        owner = ast.unparse(node.func.value)
        is_own = owner in ("self", "cls", "super()") or any(
            path.as_posix().endswith(place) and node.func.attr == name for place, name in OWN
        )
        if id(node) not in taken and not is_own:
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)[:80]}"


def test_results_of_foreign_methods_go_through_one_helper() -> None:
    """Nothing awaits a module's method by itself, or takes a coroutine for its answer."""
    assert [call for path in _sources() for call in _bare_calls(path)] == []


def test_there_is_one_helper() -> None:
    """Telling coroutines from values is done in one place."""
    found = {
        path.as_posix().split("/", len(ROOT.parts))[-1]
        for path in _sources()
        if re.search(r"\b(?:isawaitable|iscoroutine)\(", path.read_text(encoding="utf-8"))
    }
    assert {name.split("/", 1)[1] for name in found} == TELLING_APART


class Modules(NamedTuple):
    """Parts of a session that are written as ours are, or the other way round."""

    context: type
    provider: type
    display: Any
    approval: Any
    contributor: Any
    policy: Any
    cleanup: Any
    hook: Any


def _modules(is_flipped: bool, seen: list[str]) -> Modules:
    """Return parts whose methods are `def` or `async def` as nobody here writes them; `seen` notes what was reached."""

    def note(word: str, value: Any = None) -> Any:
        """Note that a method did its work, now or when it is awaited."""

        async def later() -> Any:
            await asyncio.sleep(0)
            seen.append(word)
            return value

        if is_flipped:
            return later()
        seen.append(word)
        return value

    class Context(ListContext):
        factory: Any = None
        is_full = False

        def set_system_prompt_factory(self, factory: Any) -> Any:
            async def later() -> None:
                self.factory = factory

            if is_flipped:
                return later()
            self.factory = factory
            return None

        def should_compact(self) -> Any:
            return note("should_compact", True)

        def compact(self) -> Any:
            return note("compact")

        async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
            return [{"role": "system", "content": await self.factory()}, *self.messages]

    class Provider(ScriptedProvider):
        def __init__(self) -> None:
            super().__init__(call(("1", "look", {})), say("Seen."), name="p")

        def parse_tool_calls(self, response: Any) -> Any:
            return note("parse_tool_calls", super().parse_tool_calls(response))

    ask = SimpleNamespace(request_approval=lambda *_: note("request_approval", "Allow"))
    display = SimpleNamespace(show_message=lambda *_: note("show_message"))
    hook = HookResult(action="inject_context", context_injection="Be quick.", user_message="It is late.")
    return Modules(
        Context,
        Provider,
        display,
        ask,
        lambda: note("contribution", {"cost_usd": "0.5"}),
        lambda action, details: note("policy", ("ask", "it may be wrong")),
        lambda: note("cleanup"),
        lambda event, data: note("hook", hook),
    )


async def _session(tmp_path: Path, loop: str, parts: Modules, add: Callable[[str, Any], str]) -> list[Any]:
    """Run, ask, spawn, resume and end a session of these parts; return what its user sees of it."""
    plan = {
        "session": {"orchestrator": {"module": loop}, "context": {"module": add("context", parts.context)}},
        "providers": [{"module": add("providers", parts.provider)}],
        "agents": {"explorer": {"description": "Explores.", "instruction": "You explore."}},
    }
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b", instruction="You are the root.")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.yaml").write_text("rules:\n  - {action: tool.look, verdict: allow}\n")
    systems = {"approval_system": parts.approval, "display_system": parts.display}
    outcome: list[Any] = []
    saved = None
    for prompt in ("hello", "and now?"):
        async with SessionRuntime(prepared, environ={}, saved=saved, **systems, spawner=Spawner()) as runtime:
            coordinator = runtime.session.coordinator
            await coordinator.mount("tools", PlainTool("look", lambda _: "a tree"))
            coordinator.register_policy("careful", parts.policy)
            coordinator.register_contributor("session.cost", "extra", parts.contributor)
            coordinator.register_cleanup(parts.cleanup)
            coordinator.hooks.register("prompt:submit", parts.hook)
            outcome.append(await runtime.execute(prompt))
            provider = coordinator.get("providers")["p"]
            outcome.append([str(message.content) for request in provider.requests for message in request.messages])
            outcome.append(await coordinator.collect_contributions("session.cost"))
            outcome.append((await coordinator.get_capability("session.spawn")("explorer", "Go."))["output"])
            await runtime.replace_messages([])
        saved = load_session(runtime.folder)
    return outcome


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
async def test_modules_may_be_written_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    """A session is the same whether the methods of its modules are sync or async, and every one does its work."""

    def add(point: str, part: type) -> str:
        name = f"{point.removesuffix('s')}-x{uuid.uuid4().hex[:8]}"
        module = types.ModuleType(f"amplifier_module_{name.replace('-', '_')}")

        async def mount(coordinator: Any, config: Any = None) -> None:
            await coordinator.mount(point, part())

        mount.__module__ = module.__name__
        module.mount = mount  # type: ignore[attr-defined]
        module.__amplifier_module_type__ = point.removesuffix("s")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return name

    outcomes = []
    for is_flipped in (False, True):
        place = tmp_path / str(is_flipped)
        place.mkdir()
        seen: list[str] = []
        outcome = await _session(place, loop, _modules(is_flipped, seen), add)
        gc.collect()  # a coroutine that was never awaited is reported now, and reports are errors
        outcomes.append((outcome, Counter(seen)))
    assert outcomes[0] == outcomes[1]
    wanted = {"parse_tool_calls", "request_approval", "show_message", "contribution", "policy", "cleanup", "hook"}
    assert wanted <= set(outcomes[0][1])
    told = str(outcomes[0][0])
    assert all(text in told for text in ("You are the root.", "Be quick.", "a tree"))
