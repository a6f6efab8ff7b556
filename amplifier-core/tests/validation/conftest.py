"""Write real modules to disk for the validators to look at."""

from __future__ import annotations

import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WriteModule = Callable[[str], Path]


@pytest.fixture
def write_module(tmp_path: Path) -> Iterator[WriteModule]:
    """Return a function that writes source as a package with a unique name; forget what was imported afterwards."""
    names: list[str] = []

    def write(source: str) -> Path:
        name = f"amplifier_module_case_{uuid.uuid4().hex}"
        names.append(name)
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        return package

    yield write
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in names:
            del sys.modules[loaded]
