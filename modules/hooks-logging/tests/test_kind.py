"""The module is a hook module like any other."""

from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests


class TestStructure(HookStructuralTests):
    """Inherit the checks of structure."""


class TestBehavior(HookBehaviorTests):
    """Inherit the checks of behaviour."""
