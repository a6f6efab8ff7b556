"""discover() and what modules are called: listing without loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleLoader


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, install: Any) -> None:
    """Start without installed modules and without $AMPLIFIER_MODULES."""
    monkeypatch.delenv("AMPLIFIER_MODULES", raising=False)
    install()


def folder(root: Path, name: str, source: str | None = None) -> Path:
    """Make a module folder, with a package if there is source for it."""
    made = root / name
    made.mkdir(parents=True)
    if source is not None:
        package = made / name.replace("-", "_")
        package.mkdir()
        (package / "__init__.py").write_text(source, encoding="utf-8")
    return made


async def test_only_module_folders(tmp_path: Path) -> None:
    """Files and folders of other names are no modules."""
    folder(tmp_path, "amplifier-module-tool-a")
    folder(tmp_path, "something-else")
    (tmp_path / "amplifier-module-file").touch()

    assert [info.id for info in await ModuleLoader(search_paths=[tmp_path]).discover()] == ["tool-a"]


async def test_broken_module_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A module that cannot be read is logged with its folder and skipped."""
    bad = folder(tmp_path, "amplifier-module-tool-bad", "def (:")
    folder(tmp_path, "amplifier-module-tool-good", "")

    found = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert [info.id for info in found] == ["tool-good"]
    assert any(record.levelname == "ERROR" and str(bad) in record.message for record in caplog.records)
