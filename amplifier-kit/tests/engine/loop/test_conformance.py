"""The engine keeps its promises without anything added."""

from typing import Any, ClassVar

import pytest

from amplifier_testing.loop.conformance import LoopConformance


class TestPlainLoop(LoopConformance):
    """The smallest loop on the engine passes what every loop must pass."""

    name: ClassVar[str] = "loop-plain"

    @pytest.fixture(autouse=True)
    def _mounting(self, mount: Any) -> None:
        type(self).mount = staticmethod(mount)
