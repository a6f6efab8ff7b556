"""Saved sessions, by the names that apps written for the published foundation import: cut, fork, repair, find them.

    from amplifier_foundation.session import diagnose_transcript, fork_session, load_transcript

All functions are synchronous, and paths may be text. Turns are counted from 1, and each message in the user's role
starts one; the rest of the product counts only prompts (`sessions/turns.py`). Our own code uses the room `sessions`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

#: Each public name, and the module here that defines it.
_HOMES: dict[str, str] = {
    name: home
    for home, names in {
        "diagnosis": (
            "DiagnosisResult IncompleteTurn build_tool_index diagnose_transcript repair_transcript rewind_transcript"
        ),
        "events": (
            "count_events get_event_summary get_last_timestamp_for_turn slice_events_for_fork slice_events_to_timestamp"
        ),
        "files": (
            "EVENTS_FILENAME METADATA_FILENAME TRANSCRIPT_FILENAME backup load_metadata load_transcript "
            "load_transcript_with_lines read_jsonl write_jsonl write_metadata write_transcript"
        ),
        "find": "find_sessions resolve_session session_info",
        "fork": (
            "ForkResult fork_session fork_session_in_memory get_fork_preview get_session_lineage list_session_forks"
        ),
        "turns": (
            "add_synthetic_tool_results count_turns find_orphaned_tool_calls get_turn_boundaries get_turn_summary "
            "is_real_user_message slice_to_turn"
        ),
    }.items()
    for name in names.split()
}

__all__ = [*_HOMES]

if TYPE_CHECKING:
    from amplifier_foundation.session.diagnosis import DiagnosisResult as DiagnosisResult
    from amplifier_foundation.session.diagnosis import IncompleteTurn as IncompleteTurn
    from amplifier_foundation.session.diagnosis import build_tool_index as build_tool_index
    from amplifier_foundation.session.diagnosis import diagnose_transcript as diagnose_transcript
    from amplifier_foundation.session.diagnosis import repair_transcript as repair_transcript
    from amplifier_foundation.session.diagnosis import rewind_transcript as rewind_transcript
    from amplifier_foundation.session.events import count_events as count_events
    from amplifier_foundation.session.events import get_event_summary as get_event_summary
    from amplifier_foundation.session.events import get_last_timestamp_for_turn as get_last_timestamp_for_turn
    from amplifier_foundation.session.events import slice_events_for_fork as slice_events_for_fork
    from amplifier_foundation.session.events import slice_events_to_timestamp as slice_events_to_timestamp
    from amplifier_foundation.session.files import EVENTS_FILENAME as EVENTS_FILENAME
    from amplifier_foundation.session.files import METADATA_FILENAME as METADATA_FILENAME
    from amplifier_foundation.session.files import TRANSCRIPT_FILENAME as TRANSCRIPT_FILENAME
    from amplifier_foundation.session.files import backup as backup
    from amplifier_foundation.session.files import load_metadata as load_metadata
    from amplifier_foundation.session.files import load_transcript as load_transcript
    from amplifier_foundation.session.files import load_transcript_with_lines as load_transcript_with_lines
    from amplifier_foundation.session.files import read_jsonl as read_jsonl
    from amplifier_foundation.session.files import write_jsonl as write_jsonl
    from amplifier_foundation.session.files import write_metadata as write_metadata
    from amplifier_foundation.session.files import write_transcript as write_transcript
    from amplifier_foundation.session.find import find_sessions as find_sessions
    from amplifier_foundation.session.find import resolve_session as resolve_session
    from amplifier_foundation.session.find import session_info as session_info
    from amplifier_foundation.session.fork import ForkResult as ForkResult
    from amplifier_foundation.session.fork import fork_session as fork_session
    from amplifier_foundation.session.fork import fork_session_in_memory as fork_session_in_memory
    from amplifier_foundation.session.fork import get_fork_preview as get_fork_preview
    from amplifier_foundation.session.fork import get_session_lineage as get_session_lineage
    from amplifier_foundation.session.fork import list_session_forks as list_session_forks
    from amplifier_foundation.session.turns import add_synthetic_tool_results as add_synthetic_tool_results
    from amplifier_foundation.session.turns import count_turns as count_turns
    from amplifier_foundation.session.turns import find_orphaned_tool_calls as find_orphaned_tool_calls
    from amplifier_foundation.session.turns import get_turn_boundaries as get_turn_boundaries
    from amplifier_foundation.session.turns import get_turn_summary as get_turn_summary
    from amplifier_foundation.session.turns import is_real_user_message as is_real_user_message
    from amplifier_foundation.session.turns import slice_to_turn as slice_to_turn


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
