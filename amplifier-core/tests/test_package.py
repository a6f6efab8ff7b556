"""What `import amplifier_core` costs and gives; each look is taken by a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import amplifier_core

SUBMODULES = [
    *(
        "events",
        "hooks",
        "coordinator",
        "session",
        "loader",
        "models",
        "message_models",
        "content_models",
        "interfaces",
    ),
    *("module_sources", "approval", "display", "cancellation", "capabilities", "llm_errors", "testing", "utils", "cli"),
    *("interfaces", "pytest_plugin", "validation", "correlation", "authorization"),
]


def run(code: str, *options: str, cwd: Path | None = None) -> str:
    """Run code in a fresh interpreter that treats warnings as errors; fail with what it says unless it exits with 0."""
    command = [sys.executable, "-W", "error", *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_import_is_light() -> None:
    """Importing the package starts no thread and imports neither pydantic nor asyncio, logging, inspect or pytest."""
    said = run(
        "import sys, threading\n"
        "before = set(sys.modules)\n"
        "import amplifier_core\n"
        "heavy = {'pydantic', 'pydantic_core', 'asyncio', 'logging', 'inspect', 'pytest', 'click'}\n"
        "loaded = heavy & (set(sys.modules) - before)\n"
        "ours = [name for name in sys.modules if name.startswith('amplifier_core.')]\n"
        "print(threading.active_count(), sorted(loaded), ours, type(amplifier_core.__version__).__name__)\n"
    )

    assert said == "1 [] [] str\n"


def test_events_and_constants_need_no_pydantic() -> None:
    """Names that are no models stay free of pydantic: events, capabilities, errors, content, cancellation."""
    said = run(
        "import sys\n"
        "from amplifier_core import LLMError, TextContent, CancellationToken, capabilities, events\n"
        "print('pydantic' in sys.modules)\n"
        "from amplifier_core import HookResult\n"
        "print('pydantic' in sys.modules)\n"
    )

    assert said == "False\nTrue\n"


def test_nothing_is_written_and_no_thread_stays() -> None:
    """Importing every public submodule prints nothing and starts no thread."""
    names = ", ".join(SUBMODULES)
    said = run(
        f"import threading\nfrom amplifier_core import {names}\n"
        "assert threading.active_count() == 1, threading.enumerate()"
    )

    assert said == ""


def test_every_name_resolves() -> None:
    """Every name of `__all__` is an attribute, and `from amplifier_core import *` brings all of them."""
    missing = run(
        "import amplifier_core\n"
        "for name in amplifier_core.__all__: getattr(amplifier_core, name)\n"
        "print(set(amplifier_core.__all__) - set(dir(amplifier_core)))\n"
    )
    not_brought = run(
        "from amplifier_core import *\nimport amplifier_core\nprint(set(amplifier_core.__all__) - set(globals()))"
    )

    assert missing == not_brought == "set()\n"
    assert len(set(amplifier_core.__all__)) == len(amplifier_core.__all__)


def test_identity_across_modules() -> None:
    """HookResult is one object wherever it is imported from, and so are session, registry and coordinator."""
    said = run(
        "from amplifier_core import HookResult as top\n"
        "from amplifier_core.models import HookResult as model\n"
        "from amplifier_core.hooks import HookResult as hook\n"
        "print(top is model is hook)\n"
        "import amplifier_core\n"
        "from amplifier_core import session, hooks, coordinator, loader, models, events\n"
        "print(amplifier_core.AmplifierSession is session.AmplifierSession)\n"
        "print(amplifier_core.HookRegistry is hooks.HookRegistry)\n"
        "print(amplifier_core.ModuleCoordinator is coordinator.ModuleCoordinator)\n"
        "print(amplifier_core.ModuleLoader is loader.ModuleLoader)\n"
        "print(amplifier_core.session is session)\n"
    )

    assert said.split() == ["True"] * 6


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_are_attributes(name: str) -> None:
    """Each public submodule is reachable as an attribute, without being imported first."""
    assert getattr(amplifier_core, name).__name__ == f"amplifier_core.{name}"


def test_unknown_name() -> None:
    """A name that does not exist is an AttributeError, and an ImportError from an import."""
    with pytest.raises(AttributeError, match=r"module 'amplifier_core' has no attribute 'Nonsense'"):
        _ = amplifier_core.Nonsense
    assert not hasattr(amplifier_core, "__path_of_nothing__")


def test_without_pytest() -> None:
    """Nothing a running session needs imports pytest."""
    said = run(
        "import sys\n"
        "sys.modules['pytest'] = None\n"
        "import amplifier_core.validation.base, amplifier_core._session_init, amplifier_core.loader\n"
        "import amplifier_core.coordinator, amplifier_core.session, amplifier_core.testing, amplifier_core.cli\n"
        "from amplifier_core.validation import (\n"
        "    ContextValidator, HookValidator, OrchestratorValidator, ProviderValidator, ToolValidator)\n"
        "print(sys.modules['pytest'])\n"
    )

    assert said == "None\n"


def test_one_emit_program_exits_cleanly() -> None:
    """A program that emits one event and ends says what it has to say and exits with 0."""
    said = run(
        "import asyncio\n"
        "from amplifier_core import HookRegistry\n"
        "async def main():\n"
        "    hooks = HookRegistry()\n"
        "    hooks.register('x:y', lambda event, data: print(event, data['n']))\n"
        "    await hooks.emit('x:y', {'n': 1})\n"
        "asyncio.run(main())\n"
    )

    assert said == "x:y 1\n"


def test_session_program_exits_cleanly(tmp_path: Path) -> None:
    """A program that runs a whole session leaves no warning, no thread and no file behind."""
    said = run(
        "import asyncio, threading\n"
        "from amplifier_core import AmplifierSession\n"
        "class Loader:\n"
        "    async def load(self, module_id, config=None, source_hint=None, coordinator=None):\n"
        "        class Part:\n"
        "            name = 'x'\n"
        "            async def execute(self, **arguments): return arguments['prompt']\n"
        "        async def mount(coordinator):\n"
        "            await coordinator.mount(module_id, Part())\n"
        "        return mount\n"
        "plan = {'session': {'orchestrator': 'orchestrator', 'context': 'context'},\n"
        "        'providers': [{'module': 'providers'}]}\n"
        "async def main():\n"
        "    async with AmplifierSession(plan, Loader()) as session:\n"
        "        print(await session.execute('hello'))\n"
        "asyncio.run(main())\n"
        "assert threading.active_count() == 1\n",
        "-B",
        cwd=tmp_path,
    )

    assert said == "hello\n"
    assert list(tmp_path.iterdir()) == []
