"""Log records without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK
from amplifier_kit.guard.redaction.redactor import Redactor

LIVE = ["live-secret-value-1"]
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6"


class Hostile(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        """Fail."""
        raise RuntimeError("unreadable")


def test_a_record_that_cannot_be_scrubbed_loses_its_data() -> None:
    """Of such a record only what it is joined by is left, and it says why."""
    record = {"ts": "t", "event": "e", "session_id": "s", "schema": {"name": "amplifier.log"}, "lvl": "INFO"}
    assert Redactor()({**record, "data": Hostile(), "error": {"message": TOKEN}, "turn_id": Hostile()}) == {
        **record,
        "data": {},
        "redaction": {"applied": False, "error": "scrub_failed"},
    }


def test_a_record_says_what_was_masked() -> None:
    """A record in which something was masked tells the rules and how often each applied; its keys keep their order."""
    record = {
        "ts": "2026-11-15T10:00:00+00:00",
        "event": "token:refreshed",
        "session_id": LIVE[0],
        "data": {"prompt": f"use {TOKEN} and {LIVE[0]}", "password": "x", "to": "jane@example.com"},
        "error": {"message": f"bad {TOKEN}"},
    }
    clean = Redactor(LIVE)(record)
    assert clean == {
        "ts": record["ts"],
        "event": "token:refreshed",
        "session_id": LIVE[0],
        "data": {"prompt": f"use {MASK} and {MASK}", "password": MASK, "to": PII_MASK},
        "error": {"message": f"bad {MASK}"},
        "redaction": {
            "applied": True,
            "rules": ["key_name", "live_value", "pattern", "pii"],
            "counts": {"key_name": 1, "live_value": 1, "pattern": 2, "pii": 1},
        },
    }
    assert list(clean) == [*record, "redaction"]
    assert Redactor(LIVE)(clean) == clean


@pytest.mark.parametrize("event", ["llm:stream_block_delta", "content_block:delta", "thinking:delta"])
def test_pieces_of_a_stream_are_masked(event: str) -> None:
    """A secret may be cut in two by the pieces of a stream, and half a secret cannot be told: no piece is written."""
    record = {"event": event, "request_id": "r-1", "data": {"sequence": 3, "block_type": "text", "text": "half-of-a"}}
    clean = Redactor()(record)
    assert clean == {
        "event": event,
        "request_id": "r-1",
        "data": {"sequence": 3, "block_type": "text", "text": MASK},
        "redaction": {"applied": True, "rules": ["stream_piece"], "counts": {"stream_piece": 1}},
    }
    assert Redactor()(clean) == clean
    assert Redactor()({"event": event, "data": None}) == {"event": event, "data": None}


def test_a_second_redactor_adds_its_counts() -> None:
    """Two redactors in a row tell together what was masked."""
    record = {"event": "e", "data": {"a": LIVE[0], "b": TOKEN}}
    clean = Redactor(LIVE)(Redactor(rules=["secrets"])(record))
    assert clean["redaction"] == {
        "applied": True,
        "rules": ["live_value", "pattern"],
        "counts": {"live_value": 1, "pattern": 1},
    }


def test_a_record_without_secrets_stays_as_it_is() -> None:
    """Nothing found, nothing said."""
    record = {"ts": "t", "event": "e", "data": {"tool_name": "bash", "tool_input": {"command": "ls -la"}}}
    assert Redactor(LIVE)(record) == record
