"""loop-basic is a loop as the engine and the kernel want it."""

from typing import ClassVar

from amplifier_core.validation.behavioral import OrchestratorBehaviorTests
from amplifier_core.validation.structural import OrchestratorStructuralTests
from amplifier_module_loop_basic import mount
from amplifier_testing.loop.conformance import LoopConformance


class TestStructure(OrchestratorStructuralTests):
    """The module is built as orchestrator modules are."""


class TestBehavior(OrchestratorBehaviorTests):
    """The loop does what every orchestrator does."""


class TestConformance(LoopConformance):
    """The loop keeps the promises of the engine."""

    name: ClassVar[str] = "loop-basic"
    mount = staticmethod(mount)
