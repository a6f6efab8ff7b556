"""What the pytest plugin and the inherited test classes do for module authors, seen from real runs of pytest."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import amplifier_core
from amplifier_core.validation._locate import find_module, module_kind, package_in

pytest_plugins = ["pytester"]

GOOD = {
    "provider": """
from amplifier_core import ProviderInfo
class P:
    name = "p"
    def get_info(self): return ProviderInfo(id="p", display_name="P")
    async def list_models(self): return []
    async def complete(self, request, **kwargs): ...
    def parse_tool_calls(self, response): return []
async def mount(coordinator, config):
    await coordinator.mount("providers", P(), name="p")
""",
    "tool": """
from amplifier_core import ToolResult
class T:
    name = "t"
    description = "d"
    input_schema = {}
    async def execute(self, input):
        if "path" not in input:
            return ToolResult(success=False, error={"message": "path is missing"})
        return ToolResult(success=True, output="ok")
async def mount(coordinator, config):
    await coordinator.mount("tools", T())
    return {"name": "tool-x"}
""",
    "hook": """
from amplifier_core import HookResult
async def mount(coordinator, config):
    async def handler(event, data):
        data["seen"]
        return HookResult(action="continue")
    unregister = [coordinator.hooks.register(event, handler) for event in ("tool:pre", "tool:post")]
    def cleanup():
        unregister.pop()()
        unregister.pop()()
    return cleanup
""",
    "orchestrator": """
class O:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        await context.add_message({"role": "user", "content": prompt})
        response = await providers["default"].complete({"messages": await context.get_messages()})
        return response.content[0].text
async def mount(coordinator, config):
    await coordinator.mount("orchestrator", O())
""",
    "context": """
class C:
    def __init__(self): self.messages = []
    async def add_message(self, message): self.messages.append(message)
    async def get_messages_for_request(self, token_budget=None, provider=None): return list(self.messages)
    async def get_messages(self): return list(self.messages)
    async def set_messages(self, messages): self.messages = list(messages)
    async def clear(self): self.messages = []
    def _should_compact(self): return False
    async def _compact_internal(self): ...
async def mount(coordinator, config):
    await coordinator.mount("context", C())
""",
}

#: How many tests an author inherits, one structural and the behavioral ones.
INHERITED = {"provider": 1 + 5, "tool": 1 + 7, "hook": 1 + 7, "orchestrator": 1 + 6, "context": 1 + 10}

LAYOUTS = {"repository": "amplifier-module-{id}", "modules": "modules/{id}"}


def inherit(kind: str) -> str:
    """Return a test file as an author writes it."""
    name = kind.title()
    return (
        f"from amplifier_core.validation.structural import {name}StructuralTests\n"
        f"from amplifier_core.validation.behavioral import {name}BehaviorTests\n"
        f"class TestStructure({name}StructuralTests): ...\n"
        f"class TestBehavior({name}BehaviorTests): ...\n"
    )


def write_module(
    root: Path, kind: str, source: str, layout: str = "repository", name: str = "x", tests: str | None = None
) -> Path:
    """Write a module with tests beside it, in one of the two layouts, and return its folder."""
    folder = root / LAYOUTS[layout].format(id=f"{kind}-{name}")
    package = folder / f"amplifier_module_{kind}_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    (folder / "tests").mkdir()
    (folder / "tests" / f"test_{kind}_{name}.py").write_text(tests or inherit(kind))
    return folder


def options(mode: str) -> list[str]:
    """Return what every run is given: warnings are errors, and the plugins of this run have no say."""
    return [
        *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-W", "error", "--strict-markers"),
        *("-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"),
    ]


RunPytest = Callable[..., str]


@pytest.fixture
def whole_kernel() -> None:
    """Import all of it: what a run of `pytester` imports is forgotten after it, and would then be there twice."""
    for part in pkgutil.walk_packages(amplifier_core.__path__, "amplifier_core."):
        importlib.import_module(part.name)
    for name in amplifier_core.__all__:
        getattr(amplifier_core, name)


@pytest.fixture
def run_pytest(whole_kernel: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunPytest:
    """Give `run_pytest(cwd, *arguments, mode="auto")`: run pytest as an author would, and return what it prints."""

    def run(cwd: Path, *arguments: str, mode: str = "auto") -> str:
        monkeypatch.chdir(cwd)
        return str(pytester.runpytest_inprocess(*options(mode), *arguments).stdout)

    return run


def run_process(cwd: Path, *arguments: str, mode: str = "auto") -> str:
    """Run pytest in another process and return its output."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options(mode), *arguments],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    ).stdout


def verdict(said: str) -> str:
    """Return pytest's last line without the time it took."""
    return said.strip().splitlines()[-1].strip("= ").rpartition(" in ")[0]


def faults(said: str) -> dict[str, list[str]]:
    """Return the tests that failed or could not start, by the name of the test file."""
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        if line.startswith(("FAILED ", "ERROR ")) and "::" in line:
            test = line.split()[1]
            found.setdefault(Path(test.partition("::")[0]).stem, []).append(test.rpartition("::")[2])
    return found


@pytest.mark.parametrize(("layout", "mode", "is_process"), [("repository", "auto", True), ("modules", "strict", False)])
def test_good_modules_pass(tmp_path: Path, run_pytest: RunPytest, layout: str, mode: str, is_process: bool) -> None:
    """A good module of each kind passes all it inherits, in both layouts and both modes of pytest-asyncio.

    One run has all five: each test file finds the module it lies beside.
    """
    for kind, source in GOOD.items():
        write_module(tmp_path, kind, source, layout)
    done = (run_process if is_process else run_pytest)(tmp_path, mode=mode)
    assert verdict(done) == f"{sum(INHERITED.values())} passed", done


def test_modules_that_mount_nothing_fail(tmp_path: Path, run_pytest: RunPytest) -> None:
    """A mount() that does nothing fails every inherited test, apart from hooks, which may register later."""
    for kind in GOOD:
        write_module(tmp_path, kind, "async def mount(coordinator, config): ...")
    done = run_pytest(tmp_path, "--tb=line")
    assert {name: len(tests) for name, tests in faults(done).items()} == {
        f"test_{kind}_x": count for kind, count in INHERITED.items() if kind != "hook"
    }, done
    assert "Structural validation failed:" in done
    for kind in ("provider", "tool", "orchestrator", "context"):
        assert f"  - protocol_compliance: No {kind} was mounted and mount() did not return" in done
        assert f"Failed: No {'context manager' if kind == 'context' else kind} was mounted" in done


#: Faults by a name of their own: kind, what to replace by what, and the tests that must notice. Others may.
BROKEN = {
    "models": ("provider", "return []\n    async", "return None\n    async", ["test_list_models_returns_list"]),
    "info": ("provider", 'id="p"', 'id=""', ["test_get_info_returns_valid_provider_info"]),
    "calls": ("provider", "(self, response): return []", "(self, _): ...", ["test_parse_tool_calls_returns_list"]),
    "input": ("tool", '"path" not in input', 'input["path"]', ["test_invalid_input_returns_error_result"]),
    "description": ("tool", 'description = "d"', 'description = ""', ["test_tool_has_description"]),
    "result": (
        "tool",
        "return ToolResult(success=False",
        "return dict(success=False",
        ["test_execute_returns_tool_result"],
    ),
    "answer": ("hook", 'data["seen"]\n', "return 5\n", ["test_handler_returns_hook_result"]),
    "cleanup": ("hook", "def cleanup():\n", "def cleanup():\n        raise OSError\n", ["test_cleanup_does_not_raise"]),
    "returned": ("hook", "return cleanup", "return 5", ["test_cleanup_is_callable_if_present"]),
    "empty": ("orchestrator", "return response.content[0].text", 'return ""', ["test_execute_returns_string"]),
    "silent": (
        "orchestrator",
        "await context.add_message(",
        "repr(",
        ["test_orchestrator_updates_context"],
    ),
    "alone": (
        "orchestrator",
        "response = await",
        "return 'fixed'\n        response = await",
        ["test_orchestrator_uses_provider"],
    ),
    "forgetful": (
        "context",
        "self.messages.append(message)",
        "...",
        ["test_message_round_trip", "test_multiple_messages", "test_get_messages_for_request_returns_messages"],
    ),
    "clinging": ("context", "self.messages = []\n    def", "...\n    def", ["test_clear_removes_messages"]),
    "vague": ("context", "return False", "return 1", ["test_internal_should_compact_returns_bool"]),
    "none": ("context", "(self): return list(self.messages)", "(self): ...", ["test_get_messages_never_returns_none"]),
}


def test_broken_modules_fail_where_they_are_broken(tmp_path: Path, run_pytest: RunPytest) -> None:
    """Each fault is noticed by the inherited test that is about it."""
    for name, (kind, before, after, _) in BROKEN.items():
        assert before in GOOD[kind], name
        write_module(tmp_path, kind, GOOD[kind].replace(before, after), name=name)
    done = run_pytest(tmp_path, "--tb=line")
    noticed = faults(done)
    for name, (kind, _, _, expected) in BROKEN.items():
        assert set(expected) <= set(noticed.get(f"test_{kind}_{name}", [])), f"{name}\n{done}"


def test_harmless_oddities_pass(tmp_path: Path, run_pytest: RunPytest) -> None:
    """Modules that the kernel copes with pass: an instance returned, private methods with arguments, no cleanup."""
    odd = {
        "tool": GOOD["tool"].partition("async def mount")[0] + "async def mount(coordinator, config): return T()\n",
        "context": GOOD["context"].replace("_should_compact(self)", "_should_compact(self, budget)"),
        "hook": GOOD["hook"].replace("return cleanup", "return {'name': 'hooks-x'}"),
    }
    for kind, source in odd.items():
        write_module(tmp_path, kind, source)
    done = run_pytest(tmp_path, "-rs")
    assert verdict(done) == f"{sum(INHERITED[kind] for kind in odd) - 1} passed, 1 skipped", done
    assert "_should_compact() takes arguments" in done


def test_fixtures(tmp_path: Path, run_pytest: RunPytest) -> None:
    """The fixtures are what the contract says, and every mount starts from a fresh run of the module's own file."""
    source = (
        GOOD["tool"]
        .replace(
            "async def mount(coordinator, config):\n",
            "MOUNTS = []\nCLEANED = []\nasync def mount(coordinator, config):\n"
            "    MOUNTS.append(config)\n    async def cleanup(): coordinator.cleaned = True\n",
        )
        .replace('return {"name": "tool-x"}', "return cleanup")
    )
    tests = """
import sys
from collections.abc import Callable
from pathlib import Path
import amplifier_module_tool_x as loaded
import pytest
from amplifier_core.testing import EventRecorder, MockContextManager, MockCoordinator, MockTool

HERE = Path(__file__).parent.parent
COORDINATORS = []

def test_place(module_path, module_type, is_module_context):
    assert module_path == HERE / "amplifier_module_tool_x"
    assert (module_type, is_module_context) == ("tool", True)

def test_coordinator(coordinator):
    assert type(coordinator) is MockCoordinator
    assert coordinator.mount_history == []

async def test_mock_deps(mock_deps):
    context, providers, tools, hooks = mock_deps
    assert (type(context), type(hooks)) == (MockContextManager, EventRecorder)
    assert list(providers) == ["default"] and list(tools) == ["test_tool"]
    assert isinstance(tools["test_tool"], MockTool)
    provider = providers["default"]
    assert (await provider.complete(None)).content[0].text == "Mock response"
    assert await provider.list_models() == [] and provider.parse_tool_calls(None) == []
    assert provider.get_info().id == provider.name == "mock"

@pytest.mark.parametrize("again", [1, 2])
async def test_private_copy(tool_module, coordinator, again):
    private = sys.modules[type(tool_module).__module__]
    assert private is not loaded
    assert sys.modules["amplifier_module_tool_x"] is loaded
    assert type(tool_module) is private.T
    assert private.MOUNTS == [{}]
    assert coordinator.get("tools", "t") is tool_module
    COORDINATORS.append(coordinator)

@pytest.mark.module_validation
def test_afterwards():
    assert sys.modules["amplifier_module_tool_x"] is loaded
    assert loaded.MOUNTS == []
    assert [c.cleaned for c in COORDINATORS] == [True, True]
"""
    folder = write_module(tmp_path, "tool", source, tests=tests)
    done = run_pytest(folder, "-o", "pythonpath=.")
    assert verdict(done) == "6 passed", done


def test_submodules_stay_the_ones_that_a_test_patches(tmp_path: Path, run_pytest: RunPytest) -> None:
    """What the module imports of its package is the real thing, before, while and after it is mounted."""
    source = (
        "from .inner import T\nfrom amplifier_module_tool_x import inner\n"
        "async def mount(coordinator, config):\n    await coordinator.mount('tools', T(), name='t')\n"
    )
    tests = """
import sys

def test_nothing_is_loaded_yet():
    assert "amplifier_module_tool_x" not in sys.modules

async def test_the_class_is_the_real_one(tool_module):
    import amplifier_module_tool_x.inner as inner
    assert type(tool_module) is inner.T

async def test_a_patch_counts(tool_module, monkeypatch):
    import amplifier_module_tool_x.inner as inner
    monkeypatch.setattr(inner, "ANSWER", "patched")
    assert (await tool_module.execute({})).output == "patched"

def test_submodules_stay():
    from amplifier_module_tool_x.inner import T
    assert sys.modules["amplifier_module_tool_x.inner"].T is T
    assert not [name for name in sys.modules if "__private" in name]
"""
    folder = write_module(tmp_path, "tool", source, tests=tests)
    (folder / "amplifier_module_tool_x" / "inner.py").write_text(
        "from amplifier_core import ToolResult\nANSWER = 'real'\n"
        "class T:\n    name, description, input_schema = 't', 'T.', {'type': 'object'}\n"
        "    async def execute(self, input): return ToolResult(output=ANSWER)\n"
    )
    done = run_pytest(folder, "-o", "pythonpath=.", "-p", "no:randomly")
    assert verdict(done) == "4 passed", done


def test_outside_a_module(tmp_path: Path, run_pytest: RunPytest) -> None:
    """Away from any module the path is None and what needs one is skipped."""
    (tmp_path / "test_it.py").write_text(
        "from amplifier_core.validation.structural import ToolStructuralTests\n"
        "from amplifier_core.validation.behavioral import ToolBehaviorTests\n"
        "class TestStructure(ToolStructuralTests): ...\n"
        "class TestBehavior(ToolBehaviorTests): ...\n"
        "def test_none(module_path, module_type, is_module_context):\n"
        "    assert (module_path, module_type, is_module_context) == (None, None, False)\n"
    )
    done = run_pytest(tmp_path, "-rs")
    assert verdict(done) == f"1 passed, {INHERITED['tool']} skipped", done
    assert "No module path detected" in done


def test_module_path_option(tmp_path: Path, run_pytest: RunPytest) -> None:
    """--module-path names the folder that holds the module, or the module itself, whatever is nearby."""
    folder = write_module(tmp_path, "tool", GOOD["tool"], "modules")
    elsewhere = write_module(
        tmp_path,
        "hook",
        GOOD["hook"],
        tests="def test_path(module_path, module_type):\n"
        "    assert (module_path.name, module_type) == ('amplifier_module_tool_x', 'tool')\n",
    )
    for given in (folder, folder / "amplifier_module_tool_x"):
        done = run_pytest(elsewhere, "--module-path", str(given))
        assert verdict(done) == "1 passed", done


def test_own_behavioral_files_are_skipped_by_kind(tmp_path: Path, run_pytest: RunPytest) -> None:
    """Run from a module's folder, the kernel's files run for its kind; elsewhere none does."""
    own = ("--pyargs", "amplifier_core.validation.behavioral", "-o", "python_classes=*Tests", "-rs")
    everything = sum(INHERITED.values()) - len(INHERITED)
    folder = write_module(tmp_path, "tool", GOOD["tool"])
    done = run_pytest(folder, *own)
    assert verdict(done) == f"7 passed, {everything - 7} skipped", done
    assert "Test for different module type (detected: tool)" in done
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run_pytest(elsewhere, *own)
    assert verdict(done) == f"{everything} skipped", done
    assert "Not running in Amplifier module context" in done


def test_marker_and_option_are_documented(tmp_path: Path, run_pytest: RunPytest) -> None:
    """The marker and the option show up in pytest's own help."""
    assert "@pytest.mark.module_validation: mark test as module validation test" in run_pytest(tmp_path, "--markers")
    assert "--module-path" in run_pytest(tmp_path, "--help")


# -- finding modules --


def package(folder: Path) -> Path:
    """Make an empty package."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    return folder


def test_repository_may_name_its_package_freely(tmp_path: Path) -> None:
    """Inside `amplifier-module-*` any `amplifier_*` package will do."""
    expected = package(tmp_path / "amplifier-module-tool-x" / "amplifier_x")
    assert find_module([expected.parent / "tests" / "unit"]) == expected
    assert module_kind(expected) == "tool"


def test_folder_of_many_modules_is_none_of_them(tmp_path: Path) -> None:
    """A folder with two module packages says nothing about which is meant."""
    for name in ("tool_a", "tool_b"):
        package(tmp_path / "both" / f"amplifier_module_{name}")
    assert package_in(tmp_path / "both") is None


def test_nearest_module_wins(tmp_path: Path) -> None:
    """A module inside another's folder is found before it."""
    package(tmp_path / "amplifier_module_tool_outer")
    inner = package(tmp_path / "inner" / "src" / "amplifier_module_hooks_inner")
    assert find_module([tmp_path / "inner" / "tests"]) == inner
    assert find_module([inner]) == inner


def test_search_ends_at_the_repository_and_at_site_packages(tmp_path: Path) -> None:
    """What lies outside the repository, or is merely installed, is not the module under test."""
    package(tmp_path / "amplifier_module_tool_stray")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    assert find_module([tmp_path / "repository" / "tests"]) is None
    installed = tmp_path / "lib" / "site-packages"
    package(installed / "amplifier_module_tool_installed")
    assert find_module([installed / "something" / "tests"]) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amplifier_module_provider_mock", "provider"),
        ("amplifier_module_tool_context_search", "tool"),
        ("amplifier_module_hooks_logging", "hook"),
        ("amplifier_module_hook_x", "hook"),
        ("amplifier_module_loop_basic", "orchestrator"),
        ("amplifier_module_orchestrator_x", "orchestrator"),
        ("amplifier_module_context_simple", "context"),
        ("amplifier_module_something", None),
    ],
)
def test_kind_by_name(name: str, kind: str | None) -> None:
    """The first word that names a kind decides."""
    assert module_kind(Path("folder") / name) == kind
