"""What stands where something was masked."""

from __future__ import annotations

MASK = "[REDACTED]"
PII_MASK = "[REDACTED:PII]"
MASKS = (MASK, PII_MASK)
