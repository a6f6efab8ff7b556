"""What importing the validators must not cost: pytest, the testing helpers, or anything at all until they are used."""

from __future__ import annotations

import subprocess
import sys


def run(source: str) -> str:
    """Run Python source in a process of its own and return what it printed."""
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


def test_public_names() -> None:
    """Every name that the package offers is there, and a wrong one is an AttributeError."""
    said = run(
        "import amplifier_core.validation as v\n"
        "print([name for name in v.__all__ if getattr(v, name) is None], set(v.__all__) - set(dir(v)))\n"
        "print(hasattr(v, 'NoSuchValidator'))\n"
        "from amplifier_core.validation.structural import check_on_session_ready\n"
        "from amplifier_core.validation.base import check_on_session_ready as same\n"
        "print(check_on_session_ready is same)\n"
    )
    assert said == "[] set()\nFalse\nTrue\n"
