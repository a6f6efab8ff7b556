"""What context managers share: a ledger that is kept whole, and views of it that fit the model.

Files that hold messages are in `amplifier_kit.engine.context.transcript`, which is imported by those who need one.
"""

from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.compaction import COMPACT_SKIPPED
from amplifier_kit.engine.context.config import ContextConfig

__all__ = ["COMPACT_SKIPPED", "BaseContext", "ContextConfig"]
