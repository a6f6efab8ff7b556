"""What importing the validators must not cost: pytest, the testing helpers, or anything at all until they are used."""

from __future__ import annotations

import subprocess
import sys


def run(source: str) -> str:
    """Run Python source in another process and return its output."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_live_checks_need_no_testing_helpers() -> None:
    """Sessions use the validators without paying for mocks."""
    loaded = run(
        "import sys\n"
        "from amplifier_core.validation import validator_for\n"
        "[validator_for(kind) for kind in ('tool', 'hook', 'provider', 'orchestrator', 'context')]\n"
        "print([name for name in ('unittest.mock', 'amplifier_core.testing', 'click', 'pydantic', 'pytest')\n"
        "       if name in sys.modules])\n"
    )
    assert loaded.strip() == "[]"


def test_plugin_imports_nothing_of_the_kernel() -> None:
    """pytest loads the plugin in every run, so it brings no other part of the kernel along."""
    loaded = run(
        "import sys, amplifier_core.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('amplifier_core') or name == 'pydantic'))\n"
    )
    assert loaded.strip() == "['amplifier_core', 'amplifier_core.pytest_plugin']"
