"""The table of control files knows every place in a project where the product looks for what it runs or obeys."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from amplifier_kit.guard.control_files import Use, project_rows
from amplifier_module_tool_skills.roots import PROJECT_FOLDERS

_ROOT = Path(__file__).parents[1]
_PRODUCT = [*_ROOT.glob("amplifier-*/amplifier_*"), *_ROOT.glob("modules/*/amplifier_module_*")]


def _joined(node: ast.expr) -> tuple[str, list[str]] | None:
    """Return what a path begins with and the names that are joined to it, as far as they are plain text."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left = _joined(node.left)
        if left is not None and isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
            left[1].append(node.right.value)
        return left
    if isinstance(node, ast.Name | ast.Attribute):
        return (node.id if isinstance(node, ast.Name) else node.attr), []
    return None


def _places() -> Iterator[str]:
    """Yield the hidden files and folders of a project that the code of the product names."""
    for package in _PRODUCT:
        for file in package.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                found = _joined(node) if isinstance(node, ast.BinOp) else None
                if found is not None and found[0].endswith("project") and found[1] and found[1][0].startswith("."):
                    yield "/".join(found[1])


def _is_covered(place: str, use: Use) -> bool:
    """Tell whether a row for a use means a place, a folder around it, or files in it."""
    return any(
        fnmatchcase(place, row.path) or place.startswith(f"{row.path}/") or row.path.startswith(f"{place}/")
        for row in project_rows(use)
    )


@pytest.mark.parametrize("use", [Use.TRUST, Use.POLICY, Use.SANDBOX])
def test_the_table_has_every_place_that_the_product_looks_in(use: Use) -> None:
    """Skills, agents, bundles, hooks and servers of a project are control files for every use."""
    places = {*PROJECT_FOLDERS, *_places()} - {".git"}
    assert {".agents/skills", ".amplifier/agents", ".amplifier/bundles", ".mcp.json"} <= places
    assert sorted(place for place in places if not _is_covered(place, use)) == []
