"""Write modules as their authors would, and run them in real sessions."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError

LOOP = '''
import json


class Loop:
    """Run the tool that the prompt names (`name {json}`), else ask the first provider."""

    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **_):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        name, _, arguments = prompt.partition(" ")
        if name in tools:
            call = {"tool_name": name, "tool_input": json.loads(arguments or "{}")}
            await hooks.emit("tool:pre", call)
            try:
                answer = (await tools[name].execute(call["tool_input"])).output
            except Exception as error:
                await hooks.emit("tool:error", {**call, "error": str(error)})
                answer = f"tool failed: {error}"
            else:
                await hooks.emit("tool:post", {**call, "result": answer})
        else:
            provider = next(iter(providers.values()))
            answer = await provider.complete(await context.get_messages())
        await context.add_message({"role": "assistant", "content": answer})
        await hooks.emit("prompt:complete", {"response": answer})
        return answer


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
'''

PROVIDER = '''
from amplifier_core import ProviderInfo


class Echo:
    """Answer with the last message."""

    name = "echo"

    def get_info(self):
        return ProviderInfo(id="echo", display_name="Echo")

    async def list_models(self):
        return []

    async def complete(self, messages, **kwargs):
        return "echo: " + messages[-1]["content"]

    def parse_tool_calls(self, response):
        return []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Echo(), name="echo")
'''


GREETER = """
class Result:
    success = True

    def __init__(self, output):
        self.output = output


class Greeter:
    name = "greet"
    description = "Greet somebody"
    input_schema = {"type": "object", "properties": {"who": {"type": "string"}}}

    def __init__(self, greeting):
        self.greeting = greeting

    async def execute(self, input):
        return Result(f"{self.greeting} {input['who']}")


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Greeter(config.get("greeting", "hello")), name="greet")
"""


class Folder:
    """Be a module source that is already on this disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        return self.path


class Resolver:
    """Resolve relative sources against a bundle's root, as an app does, and remember every source it was given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: dict[str, Any] = {}

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Folder:
        self.asked[module_id] = source_hint
        if source_hint is None or source_hint.startswith("git+"):
            raise SourceNotFoundError(f"no source for '{module_id}'")
        return Folder(self.root / source_hint)


class Workbench:
    """Hold a place where installed packages are, and one where module folders are."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, context: str) -> None:
        self.root = root
        self.site = root / "site"
        self.site.mkdir()
        self.packages: set[str] = set()
        self.resolver = Resolver(root)
        monkeypatch.syspath_prepend(str(self.site))
        for module_id, source in (("loop-seed", LOOP), ("context-seed", context), ("provider-seed", PROVIDER)):
            self.install(module_id, source)

    def install(self, module_id: str, source: str) -> Path:
        """Write a module as a package that Python finds by itself."""
        return self._write(self.site, module_id, source)

    def install_greeter(self) -> None:
        """Install `tool-greeter`, whose tool `greet` greets with the greeting of its config."""
        self.install("tool-greeter", GREETER)

    def folder(self, module_id: str, source: str) -> Path:
        """Write a module as a folder `modules/<id>` that holds its package, and return that folder."""
        folder = self.root / "modules" / module_id
        self._write(folder, module_id, source)
        return folder

    def _write(self, place: Path, module_id: str, source: str) -> Path:
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        package = place / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        self.packages.add(name)
        importlib.invalidate_caches()
        return package

    def forget(self) -> None:
        """Forget what was imported from here."""
        for loaded in [name for name in sys.modules if name.partition(".")[0] in self.packages]:
            del sys.modules[loaded]

    def plan(self, *, tools: Any = (), hooks: Any = (), **more: Any) -> dict[str, Any]:
        """Return a mount plan; tools and hooks are ids or entries, the rest replaces or adds sections."""
        session = {"orchestrator": {"module": "loop-seed"}, "context": {"module": "context-seed"}}
        return {
            "session": {**session, **more.pop("session", {})},
            "providers": [{"module": "provider-seed"}],
            "tools": [_entry(tool) for tool in tools],
            "hooks": [_entry(hook) for hook in hooks],
            **more,
        }

    def session(self, plan: dict[str, Any] | None = None, **options: Any) -> AmplifierSession:
        """Return a session of `plan` that is not initialised yet."""
        return AmplifierSession(plan or self.plan(), **options)


def _entry(entry: Any) -> dict[str, Any]:
    return {"module": entry} if isinstance(entry, str) else entry


class Recorder:
    """Hear every event of a session."""

    def __init__(self, session: AmplifierSession) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        session.coordinator.hooks.register("*", self._hear, priority=-1000, name="recorder")

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))

    @property
    def names(self) -> list[str]:
        return [event for event, _ in self.events]

    def data(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context_source: str) -> Iterator[Workbench]:
    """Give a workbench with an orchestrator, a context and a provider on it."""
    workbench = Workbench(tmp_path, monkeypatch, context_source)
    yield workbench
    workbench.forget()


@pytest.fixture
def record() -> type[Recorder]:
    """Give the class that hears every event of the session it is given."""
    return Recorder


@pytest.fixture
def example() -> Callable[[str], str]:
    """Give a function that reads one of the quoted examples by its name."""
    return lambda name: (Path(__file__).parent / "examples" / f"{name}.txt").read_text(encoding="utf-8")


@pytest.fixture
def run_pytest() -> Callable[..., tuple[int, str]]:
    """Give a function that runs an author's tests in a process of their own: (folder, import path) → (code, output)."""

    def run(folder: Path, *import_path: Path) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, import_path))}
        for name in [name for name in environment if name.startswith("PYTEST_")]:
            del environment[name]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run
