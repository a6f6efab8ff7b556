"""Mask secrets before anything is written: by key name, by known live value, and by pattern.

Redaction never changes what runs; it makes copies for whoever writes. Ids and times are never masked, because the lines
of a log are joined by them. A value that cannot be scrubbed is left out, not let through.
"""

from amplifier_kit.guard.redaction.live import live_values_from_env, live_values_from_keys, live_values_from_plan
from amplifier_kit.guard.redaction.mask import MASK, PII_MASK
from amplifier_kit.guard.redaction.names import PROTECTED_KEYS, is_secret_name
from amplifier_kit.guard.redaction.process import (
    known_keys,
    known_secrets,
    process_redactor,
    remember_keys,
    remember_secrets,
)
from amplifier_kit.guard.redaction.redactor import DEFAULT_RULES, Redactor, Scrubbed
from amplifier_kit.guard.redaction.stream import RedactingStream

__all__ = [
    "DEFAULT_RULES",
    "MASK",
    "PII_MASK",
    "PROTECTED_KEYS",
    "RedactingStream",
    "Redactor",
    "Scrubbed",
    "is_secret_name",
    "known_keys",
    "known_secrets",
    "live_values_from_env",
    "live_values_from_keys",
    "live_values_from_plan",
    "process_redactor",
    "remember_keys",
    "remember_secrets",
]
