"""Let pytest find the module under test, mount it and run the tests of its kind.

pytest loads this wherever the kernel is installed, in runs that have nothing to do with modules too, so nothing of the
kernel is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

try:
    import pytest_asyncio
except ImportError:  # another plugin may run async fixtures
    async_fixture = pytest.fixture
else:
    async_fixture = pytest_asyncio.fixture  # type: ignore[assignment]  # other overloads, same use

if TYPE_CHECKING:
    from amplifier_core.testing import EventRecorder, MockContextManager, MockCoordinator, MockTool

_KERNEL = Path(__file__).parent
_BEHAVIORAL = _KERNEL / "validation" / "behavioral"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--module-path`."""
    group = parser.getgroup("amplifier", "Amplifier modules")
    group.addoption(
        "--module-path", default=None, help="Path to the module under test; found from the test files by default"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "module_validation: mark test as module validation test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the kernel's own behavioral tests outside a module, and inside one those of other kinds."""
    ours = [item for item in items if item.path.parent == _BEHAVIORAL]
    if not ours:
        return
    from amplifier_core.validation._locate import module_kind

    package = _module_of_run(config)
    kind = module_kind(package) if package is not None else None
    for item in ours:
        if package is None:
            item.add_marker(pytest.mark.skip(reason="Not running in Amplifier module context"))
        elif item.path.stem != f"test_{kind}":
            item.add_marker(pytest.mark.skip(reason=f"Test for different module type (detected: {kind})"))


@pytest.fixture
def module_path(request: pytest.FixtureRequest) -> Path | None:
    """Return the package folder of the module under test, or None."""
    from amplifier_core.validation._locate import find_module

    beside_the_test = None
    if request.config.getoption("--module-path") is None and not request.path.is_relative_to(_KERNEL):
        beside_the_test = find_module([request.path.parent])
    return beside_the_test or _module_of_run(request.config)


@pytest.fixture
def module_type(module_path: Path | None) -> str | None:
    """Return provider, tool, hook, orchestrator or context, or None when that is unknown."""
    from amplifier_core.validation._locate import module_kind

    return module_kind(module_path) if module_path is not None else None


@pytest.fixture
def is_module_context(module_path: Path | None) -> bool:
    """Return whether there is a module under test."""
    return module_path is not None


@pytest.fixture
def coordinator() -> MockCoordinator:
    """Return a fresh coordinator."""
    from amplifier_core.testing import MockCoordinator

    made: MockCoordinator = MockCoordinator()
    return made


@pytest.fixture
def mock_deps() -> tuple[MockContextManager, dict[str, Any], dict[str, MockTool], EventRecorder]:
    """Return what an orchestrator works with: context, providers, tools, hooks."""
    from amplifier_core.testing import EventRecorder, MockContextManager, MockTool, _MockProvider

    return MockContextManager(), {"default": _MockProvider()}, {"test_tool": MockTool("test_tool")}, EventRecorder()


@async_fixture
async def provider_module(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module and give its first provider."""
    async with _mounted(module_path, coordinator, "provider", "No provider was mounted") as provider:
        yield provider


@async_fixture
async def tool_module(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module and give its first tool."""
    async with _mounted(module_path, coordinator, "tool", "No tool was mounted") as tool:
        yield tool


@async_fixture
async def orchestrator_module(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module and give its orchestrator."""
    async with _mounted(module_path, coordinator, "orchestrator", "No orchestrator was mounted") as orchestrator:
        yield orchestrator


@async_fixture
async def context_module(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module and give its context manager."""
    async with _mounted(module_path, coordinator, "context", "No context manager was mounted") as context:
        yield context


@async_fixture
async def hook_cleanup(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module on `coordinator` and give what mount() returned; a cleanup runs once, here or in the test."""
    async with _mounting(module_path, coordinator) as returned:
        cleanup = _Once(returned) if callable(returned) else returned
        yield cleanup
        await _finish(cleanup)


@asynccontextmanager
async def _mounted(
    module_path: Path | None, coordinator: MockCoordinator, kind: str, nothing: str
) -> AsyncIterator[Any]:
    """Mount the module, give the first object of its kind, then clean up."""
    from amplifier_core.validation import validator_for

    validator = validator_for(kind)
    assert validator is not None
    async with _mounting(module_path, coordinator) as returned:
        mounted = coordinator.mount_points[validator.mount_point]
        found = next(iter(mounted.values()), None) if isinstance(mounted, dict) else mounted
        is_returned = validator.is_instance(returned)
        if found is None and not is_returned:
            await _finish(returned)
            pytest.fail(nothing)
        yield returned if found is None else found
        if not is_returned:
            await _finish(returned)


@asynccontextmanager
async def _mounting(module_path: Path | None, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the module, its own file run anew, with an empty config and give what mount() returned."""
    if module_path is None:
        pytest.skip("No module path detected")
    from amplifier_core.validation._import import private_import

    with private_import(module_path) as module:
        try:
            yield await module.mount(coordinator, {})
        finally:
            await coordinator.cleanup()


async def _finish(cleanup: Any) -> None:
    """Run a cleanup, sync or async; anything that cannot be called is ignored."""
    if callable(cleanup):
        from amplifier_core.bounded_call import maybe_await

        await maybe_await(cleanup())


class _Once:
    """Call a function the first time only: a session runs a cleanup once, so it need not bear a second time."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function: Callable[[], Any] | None = function

    def __call__(self) -> Any:
        function, self._function = self._function, None
        return function() if function is not None else None


def _module_of_run(config: pytest.Config) -> Path | None:
    """Return the module under test: by option, else by the working directory and the arguments."""
    from amplifier_core.validation._locate import find_module, package_in

    given = config.getoption("--module-path")
    if given is not None:
        path = Path(given).resolve()
        return package_in(path) or path
    arguments = [Path(argument.partition("::")[0]) for argument in config.args]
    starts = [Path.cwd(), config.rootpath, *(path.resolve() for path in arguments if path.exists())]
    return find_module(start for start in starts if not start.is_relative_to(_KERNEL))
