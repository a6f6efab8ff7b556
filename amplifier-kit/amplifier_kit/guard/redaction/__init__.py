"""Mask secrets before anything is written: by key name, by known live value, and by pattern.

Redaction works on copies and never changes what runs. Ids and times are never masked, because log lines are joined by
them. A value that cannot be scrubbed is dropped.

`redactor` walks through data and log records; `stream` does the same for bytes that arrive in pieces. What is masked:
`field_names` (values under secret names), `known_values` (live secrets), `labels` (`password=…`), and `formats` (tokens
by the table `tokens.txt`, private keys, personal data). `prefilter` keeps all of that fast.
"""

from amplifier_kit.guard.redaction.field_names import PROTECTED_KEYS, is_secret_name
from amplifier_kit.guard.redaction.known_values import (
    live_values_from_env,
    live_values_from_keys,
    live_values_from_plan,
)
from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK
from amplifier_kit.guard.redaction.redactor import (
    DEFAULT_RULES,
    Redactor,
    Scrubbed,
    known_keys,
    known_secrets,
    process_redactor,
    remember_keys,
    remember_secrets,
)
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
