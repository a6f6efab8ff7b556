"""What context managers share: a ledger that is kept whole, and views of it that fit the model."""

from amplifier_kit.context.base import BaseContext
from amplifier_kit.context.compaction import COMPACT_SKIPPED
from amplifier_kit.context.settings import ContextSettings
from amplifier_kit.context.transcript import Transcript, TranscriptBusyError, sanitized

__all__ = ["COMPACT_SKIPPED", "BaseContext", "ContextSettings", "Transcript", "TranscriptBusyError", "sanitized"]
