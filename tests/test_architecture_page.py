"""`docs/architecture.md` follows a prompt through functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(r"^\| (\d+) \| `([\w.]+)\(\)` \| `(amplifier_[\w/]+\.py)` \|", re.MULTILINE)


def _functions(path: Path) -> set[str]:
    """Return the names of the functions and methods in a file, methods as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return names


def test_the_life_of_a_prompt() -> None:
    """It takes at most fifteen functions, numbered in order, and each is in the file that is named."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = STEP.findall(page)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert 10 <= len(steps) <= 15
    for _, function, file in steps:
        (path,) = ROOT.glob(f"*/{file}")
        assert function in _functions(path), f"{file} has no {function}()"
