"""Modules import only what the published kernel has, unless `docs/contracts/compatibility.md` lists them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contracts" / "compatibility.md"
#: Take away what only our kernel has, then import the modules that are given, and print those that fail.
_IMPORT = """
import importlib, sys
import amplifier_core
names = [name for name in amplifier_core.__all__ if hasattr(amplifier_core, name)]
import amplifier_core.session, amplifier_core.approval, amplifier_core.testing, amplifier_core.utils.retry
for name in ("authorization", "bounded_call", "data", "plan", "trace"):
    importlib.import_module(f"amplifier_core.{name}")
    sys.modules[f"amplifier_core.{name}"] = None
del amplifier_core.approval.ApprovalHandler, amplifier_core.approval.WaitClock
del amplifier_core.session.get_session, amplifier_core.utils.retry.compute_delay
for module in sys.argv[1:]:
    try:
        importlib.import_module(f"amplifier_module_{module.replace('-', '_')}")
    except ImportError as error:
        print(f"{module}: {error}")
"""


def _exceptions() -> set[str]:
    """Return the modules that the page says need our kernel."""
    text = PAGE.read_text(encoding="utf-8").partition("## Our modules on the published kernel\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_modules_import_only_what_the_published_kernel_has() -> None:
    """A module that needs more of the kernel to be imported is in the table of the page."""
    modules = {file.parent.name for file in ROOT.glob("modules/*/pyproject.toml")}
    exceptions = _exceptions()
    assert exceptions < modules
    command = [sys.executable, "-c", _IMPORT, *sorted(modules - exceptions)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == ""
