"""List the modules that are installed or in folders, for tools and for advice in errors; no session needs it."""

from __future__ import annotations

import ast
import logging
import os
from difflib import get_close_matches
from pathlib import Path
from pkgutil import iter_modules

from amplifier_core._discovery import PACKAGE_PREFIX, find_package_dir, guess_type, module_entry_points
from amplifier_core.models import ModuleInfo
from amplifier_core.plan import TYPE_TO_MOUNT_POINT

logger = logging.getLogger(__name__)

_FOLDER_PREFIX = "amplifier-module-"


def discover(search_paths: list[Path] | None) -> list[ModuleInfo]:
    """Return installed modules, then those in the search paths, or else in the folders of $AMPLIFIER_MODULES.

    A missing folder is a warning; a module that cannot be described is logged and left out.
    """
    found = [_info(module_id, guess_type(module_id)) for module_id in module_entry_points(rescan=True)]
    if not search_paths:
        search_paths = [Path(part) for part in os.environ.get("AMPLIFIER_MODULES", "").split(":") if part]
    for search_path in search_paths:
        found.extend(_in_folder(Path(search_path)))
    return found


def _in_folder(search_path: Path) -> list[ModuleInfo]:
    if not search_path.is_dir():
        logger.warning("Module search path does not exist: %s", search_path)
        return []
    found = []
    for folder in sorted(search_path.glob(f"{_FOLDER_PREFIX}*")):
        if not folder.is_dir():
            continue
        module_id = folder.name.removeprefix(_FOLDER_PREFIX)
        try:
            found.append(_info(module_id, _declared_type(module_id, folder) or guess_type(module_id)))
        except (OSError, ValueError, SyntaxError) as error:
            logger.error("Cannot describe the module in %s: %s", folder, error)
    return found


def _info(module_id: str, kind: str) -> ModuleInfo:
    return ModuleInfo.model_validate(
        {
            "id": module_id,
            "name": module_id.replace("-", " ").title(),
            "version": "1.0.0",
            "type": kind,
            "mount_point": TYPE_TO_MOUNT_POINT[kind],
            "description": f"Module: {module_id}",
        }
    )


def _declared_type(module_id: str, folder: Path) -> str | None:
    """Read `__amplifier_module_type__` from the package's source: listing modules must not run them."""
    package = find_package_dir(module_id, folder)
    if package is None:
        return None
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8-sig"))
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__amplifier_module_type__")], value=ast.Constant(value=kind))
                | ast.AnnAssign(target=ast.Name(id="__amplifier_module_type__"), value=ast.Constant(value=kind))
            ) if kind in TYPE_TO_MOUNT_POINT:
                return str(kind)
    return None


def suggest(module_id: str) -> str:
    """Return advice for a module that was not found: the nearest known name, or to install it."""
    packages = (found.name for found in iter_modules() if found.name.startswith(PACKAGE_PREFIX))
    known = {*module_entry_points(), *(name.removeprefix(PACKAGE_PREFIX).replace("_", "-") for name in packages)}
    near = get_close_matches(module_id, sorted(known), n=1)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"Install the package that provides it, or give '{module_id}' a source in the plan"
