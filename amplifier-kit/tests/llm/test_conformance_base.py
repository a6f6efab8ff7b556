"""A suite of a provider that lacks something says so while it is collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_testing.llm.conformance import ConformanceBase, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance

_MISSING = """
from amplifier_testing.llm.conformance import ProviderConformance

class TestProvider(ProviderConformance):
    def make(self, url, config, coordinator):
        return None
"""


@pytest.mark.parametrize("suite", [ProviderConformance, FaultConformance])
def test_what_a_suite_must_have(suite: type) -> None:
    """No class can inherit a suite without saying how its provider is made and what its service speaks."""
    with pytest.raises(TypeError, match=r"_Mine lacks .*make, messages_in, prefix_in, wire"):
        type("_Mine", (suite,), {})


def test_what_suites_share() -> None:
    """A class for several suites may leave some of it to them, unless pytest would take it for a suite."""
    shared = type("_Shared", (ConformanceBase,), {"make": lambda *_: None})
    assert issubclass(shared, ConformanceBase)
    with pytest.raises(TypeError, match="TestShared lacks messages_in, prefix_in, wire"):
        type("TestShared", (ConformanceBase,), {"make": lambda *_: None})


def test_a_suite_that_lacks_something(tmp_path: Path) -> None:
    """pytest names the suite and what it lacks, before any test runs."""
    (tmp_path / "test_missing.py").write_text(_MISSING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stdout
    assert "the suite TestProvider lacks broken_call, messages_in, prefix_in, wire" in done.stdout
