"""The module passes the tests of its kind."""

from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests


class TestStructure(HookStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(HookBehaviorTests):
    """It behaves as every hook must."""
