"""What context managers share: a ledger that is kept whole, and views of it that fit the model.

`transcript` is not imported here: only persistent contexts need files.
"""

from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.compaction import COMPACT_SKIPPED
from amplifier_kit.engine.context.token_budget import ContextConfig

__all__ = ["COMPACT_SKIPPED", "BaseContext", "ContextConfig"]
