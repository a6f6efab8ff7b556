"""Load a session to resume it: its messages, its metadata, and the plan it ran with, and what has changed since.

The messages of a turn that a crash interrupted are completed from the log, so that what was done is not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import (
    EXECUTION_END,
    ORCHESTRATOR_COMPLETE,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    PROVIDER_REQUEST,
    TOOL_ERROR,
    TOOL_POST,
)
from amplifier_foundation.bundles.bundle import BundleNotFoundError
from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed, RecordError, differences, masked_keys, with_secrets_of
from amplifier_foundation.plan.prepare import (
    Adjust,
    Options,
    activate,
    compose,
    make_fetcher,
    prepare,
    recorded_pins,
    refused,
)
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.log import EVENT_SEQ, event_seq, message_time
from amplifier_foundation.sessions.metadata import RECORD, load_metadata, load_record
from amplifier_foundation.sessions.recorder import prompt_preview
from amplifier_foundation.sessions.transcript import BACKUP, TRANSCRIPT, load_history, load_ledger, repair_history
from amplifier_foundation.sessions.turns import count_turns, message_text, starts_turn, turn_boundaries
from amplifier_foundation.timestamps import milliseconds
from amplifier_foundation.trust.check import ModuleUse, UntrustedError
from amplifier_foundation.usage.history import current_facts
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.pairing import tool_call_ids, tool_call_names, tool_result
from amplifier_kit.log.open_work import WRITTEN_BY

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_kit.log.reader import LogLine

Message = dict[str, Any]

#: The system prompt is built again; one in a transcript of another program is left out.
_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True)
class SavedSession:
    """A session on disk, ready to be resumed."""

    session_id: str
    folder: Path
    #: The conversation, repaired where a crash interrupted it: every call has one result.
    messages: list[Message]
    #: The conversation as the transcript has it.
    stored: list[Message]
    metadata: dict[str, Any] = field(default_factory=dict)
    #: The plan the session ran with; None if another program wrote the session, or the record is damaged.
    recorded: Composed | None = None
    #: What was repaired and what could not be read, as text.
    notes: tuple[str, ...] = ()
    #: Why the recorded plan cannot be used, empty if it can or there is none.
    record_problem: str = ""

    @property
    def bundle(self) -> str | None:
        """The bundle in the metadata, None if it is unknown."""
        named = str(self.metadata.get("bundle") or "").removeprefix("bundle:")
        return named if named and named != "unknown" else None

    @property
    def project(self) -> Path | None:
        """The folder that the session worked in; None if it is unknown or was deleted."""
        named = self.metadata.get("working_dir")
        return Path(named) if isinstance(named, str) and Path(named).is_dir() else None

    @property
    def turn_count(self) -> int:
        """The number of turns; an interrupted one counts if its prompt is known."""
        counted, present = self.metadata.get("turn_count"), count_turns(self.messages)
        if not isinstance(counted, int) or isinstance(counted, bool) or counted < 0:
            return present
        # A turn is counted before its prompt is saved; the metadata also count turns that were cleared.
        return min(counted, max(present, counted - 1)) if self.metadata.get("incremental") else counted

    @property
    def first_prompt(self) -> str | None:
        """The first prompt, None before there is one."""
        known = self.metadata.get("first_prompt")
        if isinstance(known, str) and known:
            return known
        first = next((message for message in self.messages if starts_turn(message)), None)
        return prompt_preview(message_text(first)) if first is not None else None


def load_session(folder: Path) -> SavedSession:
    """Return the session in `folder`, whatever state it is in; nothing on disk is changed.

    An interrupted turn is completed from the log, and calls without a result get one that says so. Damage is reported
    in `notes`. Raises HistoryError if the conversation cannot be read.
    """
    kept = load_metadata(folder)
    metadata = kept.data
    history = load_history(folder)
    notes = [*(note for note in (kept.damaged, kept.warning) if note), *history.problems]
    messages = stored = conversation(history.messages)
    # Without metadata it is unknown whether a turn was running.
    if metadata.get("incremental") or not metadata or ends_inside_turn(messages):
        ledger = conversation(load_ledger(folder))
        messages = ledger if len(ledger) > len(stored) and says_same(stored, ledger) else stored
        messages, recovered = recover(messages, folder)
        notes += recovered
        if used := current_facts(folder, metadata):
            metadata = {**metadata, "usage": used}
    repaired = repair_history(messages)
    notes += repaired.notes
    notes += _note_empty_transcript(folder, metadata, stored)
    recorded, problem = _recorded(folder)
    notes += [problem] if problem else []
    identity = str(metadata.get("session_id") or folder.name)
    return SavedSession(identity, folder, repaired.messages, stored, metadata, recorded, tuple(notes), problem)


def conversation(messages: Sequence[Message]) -> list[Message]:
    """Return messages without system prompts."""
    return [message for message in messages if message.get("role") and message["role"] not in _INSTRUCTIONS]


def says_same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Return whether two histories have the same roles, calls and texts as far as both go."""
    return all(
        one.get("role") == other.get("role")
        and one.get("tool_call_id") == other.get("tool_call_id")
        and message_text(one) == message_text(other)
        for one, other in zip(messages, others, strict=False)
    )


def ends_inside_turn(messages: Sequence[Message]) -> bool:
    """Return whether the last turn of a conversation has no answer."""
    return bool(messages) and (messages[-1].get("role") != "assistant" or bool(tool_call_ids(messages[-1])))


def _note_empty_transcript(folder: Path, metadata: dict[str, Any], stored: list[Message]) -> list[str]:
    """Return a note on a transcript that lost its messages; clearing a conversation leaves a backup."""
    turns = metadata.get("turn_count")
    if stored or not isinstance(turns, int) or turns <= bool(metadata.get("incremental")):
        return []
    path = folder / TRANSCRIPT
    if not path.exists() or (folder / BACKUP).exists():
        return []  # reported already, or cleared
    had = "one turn" if turns == 1 else f"{turns} turns"
    return [f"{path} is empty, though the session had {had}: earlier messages are only in the log"]


def _recorded(folder: Path) -> tuple[Composed | None, str]:
    content, problem = load_record(folder)
    if content is None:
        return None, problem
    try:
        return Composed.from_record(content, str(folder / RECORD)), ""
    except RecordError as error:
        return None, str(error)


# -- recovery from the log --


#: Marks messages that were recovered from the log.
RECOVERED: Final = "recovered_from_log"
#: The events that end a turn.
_ENDS: Final = frozenset({PROMPT_COMPLETE, ORCHESTRATOR_COMPLETE, EXECUTION_END})


def recover(messages: list[Message], folder: Path) -> tuple[list[Message], list[str]]:
    """Return the messages with those that only the log has, and what was added, as text.

    Three things of the last turn can be in the log and not in the transcript: the prompt, results of tools, and the
    answer. A log that cannot be read adds nothing but a note.
    """
    try:
        turn = _last_turn(folder)
    except (OSError, ValueError) as error:
        return messages, [f"the log could not be used to complete the conversation: {error}"]
    if turn is None:
        return messages, []
    completed, notes = list(messages), list[str]()
    prompt = _prompt(turn, notes)
    if prompt and turn.was_accepted and _has_prompt(messages, turn) is False:
        completed.append({"role": "user", "content": prompt, "metadata": _marks(turn.submit)})
        notes.append("the last prompt was recovered from the log")
    for message in _results(completed, turn, notes):
        completed.append(message)
        notes.append(
            f"the result of {message['name'] or 'a tool'} ({message['tool_call_id']}) was recovered from the log"
        )
    answer = _answer(completed, turn, notes)
    if answer is not None:
        completed.append(answer)
        notes.append("the answer was recovered from the log")
    return completed, notes


@dataclass
class _Turn:
    """The lines of one turn; large values in them are not read yet."""

    submit: LogLine
    #: How many accepted turns there were before.
    before: int
    was_asked: bool = False
    is_over: bool = False
    end: LogLine | None = None
    #: The last result of each call.
    results: dict[str, LogLine] = field(default_factory=dict)

    @property
    def was_accepted(self) -> bool:
        """Whether the prompt became a message: a turn that a hook denied ends without a request."""
        return self.was_asked or not self.is_over

    def note(self, line: LogLine) -> None:
        """Add a line of the turn; ends that were written after a crash say nothing about what was done."""
        event = line.event
        if WRITTEN_BY in line.data:
            return
        if event in (TOOL_POST, TOOL_ERROR):
            self.results[str(line.data.get("tool_call_id"))] = line
        elif event == PROVIDER_REQUEST:
            self.was_asked = True
        elif event in _ENDS:
            self.is_over = True
            self.end = line if event == EXECUTION_END else self.end


def _last_turn(folder: Path) -> _Turn | None:
    from amplifier_kit.log.reader import read_log

    turn: _Turn | None = None
    for line in read_log(folder, on_torn=lambda torn: None):  # a crash leaves a torn last line
        if line.event == PROMPT_SUBMIT:
            turn = _Turn(line, 0 if turn is None else turn.before + turn.was_accepted)
        elif turn is not None:
            turn.note(line)
    return turn


def _has_prompt(messages: list[Message], turn: _Turn) -> bool | None:
    """Return whether the last turn of the messages is this turn of the log: by number, by time, else by counting.

    None if the messages have more turns than the log. Texts say nothing: hooks may change a prompt, and it may be the
    same as the one before.
    """
    starts = turn_boundaries(messages)
    if not starts:
        return False
    number, submitted = event_seq(messages[starts[-1]]), turn.submit.seq
    if number is not None and submitted is not None and number <= submitted:
        return number == submitted
    stored_at, submitted_at = message_time(messages[starts[-1]]), milliseconds(turn.submit.ts)
    if stored_at is not None and submitted_at is not None:
        return stored_at >= submitted_at
    return None if len(starts) > turn.before + 1 else len(starts) > turn.before


def _results(messages: list[Message], turn: _Turn, notes: list[str]) -> Iterator[Message]:
    """Yield the results in the log for the unanswered calls of the last turn."""
    of_turn = _of_last_turn(messages)
    caller = next((message for message in reversed(of_turn) if tool_call_ids(message)), None)
    if caller is None:
        return
    answered = {message.get("tool_call_id") for message in of_turn if message.get("role") == "tool"}
    names = tool_call_names(caller)
    for call in tool_call_ids(caller):
        line = turn.results.get(call)
        if line is None or call in answered:
            continue
        try:
            content = _content(line)
        except LookupError as error:
            notes.append(f"the log has lost the result of {names.get(call) or 'a tool'} ({call}): {error}")
        else:
            yield tool_result(call, names.get(call, ""), content, **_marks(line))


def _answer(messages: list[Message], turn: _Turn, notes: list[str]) -> Message | None:
    """Return the answer if the turn had ended and the conversation has only the prompt."""
    if turn.end is None or not turn.was_asked or turn.end.get("status") != "completed":
        return None
    of_turn = _of_last_turn(messages)
    if any(map(_is_answer, of_turn)) or not _has_prompt(messages, turn):
        return None
    try:
        text = turn.end.expand(turn.end.data.get("response"))
    except LookupError as error:
        notes.append(f"the log has lost the answer: {error}")
        return None
    return {"role": "assistant", "content": text, "metadata": _marks(turn.end)} if text else None


def _of_last_turn(messages: list[Message]) -> list[Message]:
    starts = turn_boundaries(messages)
    return messages[starts[-1] :] if starts else []


def _is_answer(message: Message) -> bool:
    return message.get("role") == "assistant" and not tool_call_ids(message)


def _prompt(turn: _Turn, notes: list[str]) -> str:
    try:
        return str(turn.submit.expand(turn.submit.data.get("prompt")) or "")
    except LookupError as error:
        notes.append(f"the log has lost the last prompt: {error}")
        return ""


def _content(line: LogLine) -> str:
    """Return the result of a call as the model reads it; raises LookupError if the log has lost it."""
    data = line.resolved()
    if line.event == TOOL_ERROR:
        error = line.resolved_error() or data.get("error")
        message = error.get("message") or error.get("msg") if isinstance(error, dict) else error
        return f"Error: {message or 'the tool failed'}"
    from amplifier_core.models import ToolResult

    result = data.get("result")
    try:
        return ToolResult(**result).get_serialized_output() if isinstance(result, dict) else str(result)
    except (TypeError, ValueError):
        return str(result)


def _marks(line: LogLine) -> dict[str, Any]:
    facts = {"timestamp": line.ts, EVENT_SEQ: line.seq}
    return {RECOVERED: True, **{key: value for key, value in facts.items() if value is not None}}


# -- in the resumed session --


async def add_missing_messages(context: Any, messages: list[Message]) -> None:
    """Complete a context that reads its own file, if that file ends earlier than the transcript.

    A context whose file goes further gets its last turn repaired. Nothing is added if the two differ: a mixture of two
    histories would be wrong, and calls without a result are repaired at every request.
    """
    held = conversation(await maybe_await(context.get_messages()))
    if len(held) > len(messages):
        messages = repair_history(held).messages
    if len(held) < len(messages) and says_same(held, messages):
        for message in messages[len(held) :]:
            await maybe_await(context.add_message(message))


def past_cost_of(saved: SavedSession) -> Callable[[], Any]:
    """Return a contributor of the cost of earlier turns, which is computed on first use."""
    known = dict(saved.metadata.get("usage") or {}) if isinstance(saved.metadata.get("usage"), dict) else None
    since = datetime.now(UTC).isoformat()
    computed: list[dict[str, str] | None] = []

    async def past() -> dict[str, str] | None:
        import asyncio

        from amplifier_foundation.usage.history import past_cost

        if not computed:
            cost = await asyncio.to_thread(past_cost, known, saved.folder, since)
            computed.append({"cost_usd": str(cost)} if cost is not None else None)
        return computed[0]

    return past


# -- prepare a loaded session with the plan that was recorded for it --


async def prepare_saved(saved: SavedSession, options: Options, *, adjust: Adjust | None = None) -> Prepared:
    """Return what a session was composed of, as recorded, ready to run.

    It is compared with what bundle, settings and lock give now; every difference is one of the `warnings`. A session
    without a record, as other programs write it, gets the bundle that its metadata name, as it is now. A bundle in the
    options is used instead of the recorded one. An app that changes plans before it runs them passes `adjust`, so that
    its changes do not count as differences. Raises what `prepare` raises.
    """
    warnings = _missing_folder(saved, options.project)
    options = replace(options, project=saved.project or options.project, session_folder=saved.folder)
    if options.bundle is not None or saved.recorded is None:
        is_given = options.bundle is not None
        try:
            prepared = await prepare(replace(options, bundle=options.bundle or saved.bundle), given_by_user=is_given)
        except BundleNotFoundError as error:
            raise (error if is_given else _bundle_unknown(saved, error)) from error
        warnings += _replacement(saved, _adjusted(prepared.composed, prepared.layers, adjust))
        return replace(prepared, warnings=tuple(dict.fromkeys((*warnings, *prepared.warnings))))
    recorded = _with_session_settings(_with_shipped_files(saved.recorded), saved.folder)
    layers: tuple[Layer, ...] = ()
    try:
        composition = await compose(replace(options, bundle=recorded.reference), given_by_user=False)
        current = _adjusted(composition.composed, composition.layers, adjust)
        recorded = with_secrets_of(recorded, current)
        if _rules(recorded) == _rules(current):  # otherwise it is unknown who wrote the recorded ones
            layers = composition.layers
        warnings += [f"{line}: the recorded one is used" for line in differences(recorded, current)]
    except FoundationError as error:
        warnings.append(f"the bundle can no longer be composed, so the recorded plan is used: {error}")
    warnings += [
        f"{key}: the record of the session holds no secrets, and the source of this one is no longer known"
        for key in masked_keys(recorded)
    ]
    refusals = refused(recorded, options)
    if refusals:
        raise UntrustedError(refusals, options.project)
    recorded = await _in_recorded_state(recorded, options)
    warnings += _lost_context(recorded)
    prepared = await activate(recorded, options)
    all_warnings = tuple(dict.fromkeys((*warnings, *prepared.warnings)))
    return replace(prepared, warnings=all_warnings, is_recorded=True, layers=layers)


def _rules(composed: Composed) -> list[Any]:
    """Return everything in a plan that affects what its session may do."""
    from amplifier_foundation.policy.policy_file import mentions_approval

    hooks, agents = composed.plan.get("hooks"), composed.plan.get("agents")
    listed = [*(hooks if isinstance(hooks, list) else []), *(agents.items() if isinstance(agents, Mapping) else [])]
    from amplifier_foundation.bundles.plan_modules import said_of

    # The current files decide who wrote these, so they must have the same content as the recorded ones, in the same
    # place. The parts of an agent are in the plan of its own session, which may be resumed by itself.
    own = {key: value for key, value in composed.plan.items() if key != "agents"}
    parts = [said_of(part, name) for part in (own, agents) for name in ("hook-shell", "tool-mcp", "sandbox")]
    return [*parts, *(entry for entry in listed if mentions_approval(entry))]


def _adjusted(composed: Composed, layers: tuple[Layer, ...], adjust: Adjust | None) -> Composed:
    """Return the current composition with the changes of the app."""
    return composed if adjust is None else replace(composed, plan=adjust(composed.plan, layers))


async def _in_recorded_state(recorded: Composed, options: Options) -> Composed:
    """Return the recorded plan with fetched bundles in their recorded versions, wherever those are now.

    An update may have put another version in the recorded place. Raises SourceError if a recorded version cannot be
    fetched.
    """
    if not recorded.roots:
        return recorded
    import asyncio

    fetcher = make_fetcher(options, recorded_pins(recorded))
    roots = list(recorded.roots.items())
    fetched = await asyncio.gather(*(fetcher.fetch(uri) for uri, _ in roots))
    for (_, before), now in zip(roots, fetched, strict=True):
        if before != str(now.root):
            recorded = recorded.moved(before, str(now.root))
    return recorded


def _with_shipped_files(recorded: Composed) -> Composed:
    """Return the recorded plan with the current paths of the product's files: an update may have moved them."""
    from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE

    name, root = SHIPPED_NAMESPACE
    before = recorded.namespaces.get(name)
    return recorded if before is None or before == str(root) else recorded.moved(before, str(root))


def _with_session_settings(recorded: Composed, folder: Path) -> Composed:
    """Return the recorded plan with the session's own settings applied, which may have been written since.

    Raises SettingsError, with file and line, for invalid settings.
    """
    from amplifier_foundation.settings.checks import check_settings
    from amplifier_foundation.settings.plan import apply_settings
    from amplifier_foundation.settings.scopes import anchored, scope_file
    from amplifier_foundation.settings.settings import read_settings_file

    path = scope_file("session", Home(folder), None, folder)
    document = read_settings_file(path)
    if document is None:
        return recorded
    data, _ = check_settings(document.data, document.where)
    plan = apply_settings(recorded.plan, anchored(data, path, None))
    known = {(use.module, use.source) for use in recorded.modules}
    before = {(entry.module, entry.source) for entry in all_modules(recorded.plan)}
    added = {
        entry.module: ModuleUse(entry.section, entry.module, entry.source, "user", "user", False, str(path))
        for entry in all_modules(plan)
        if entry.source is not None and not {(entry.module, entry.source)} & (known | before)
    }
    kept = [use for use in recorded.modules if use.module not in added]
    return replace(recorded, plan=plan, modules=(*kept, *added.values()))


def _missing_folder(saved: SavedSession, project: Path) -> list[str]:
    """Return a warning if the folder that a session worked in is missing."""
    named = saved.metadata.get("working_dir")
    if not isinstance(named, str) or saved.project is not None:
        return []
    return [f"the folder {named} that the session worked in no longer exists: {project} is used"]


def _lost_context(recorded: Composed) -> list[str]:
    """Return a warning for each context file that is missing."""
    lost = [path for path in recorded.context.values() if not os.path.exists(path)]
    return [f"context: the file {path} no longer exists" for path in lost]


def _bundle_unknown(saved: SavedSession, error: BundleNotFoundError) -> BundleNotFoundError:
    """Return the error for a session without a record whose bundle is unknown here."""
    why = saved.record_problem or "it has no recorded plan"
    return BundleNotFoundError(
        f"{error}\nThe session {saved.session_id} cannot be resumed with its own bundle: {why}. To use another one: "
        f"`amplifier run --resume {saved.session_id} --bundle NAME`"
    )


def _replacement(saved: SavedSession, current: Composed) -> list[str]:
    """Return the warnings for a session that is resumed with another bundle than the recorded one."""
    if saved.recorded is not None:
        return [f"{line}: the new one is used, as requested" for line in differences(saved.recorded, current)]
    warnings = [f"the session has no recorded plan: bundle {current.name!r} is used as it is now"]
    model = saved.metadata.get("model") or saved.metadata.get("provider")
    return warnings + ([f"model: the session used {model}"] if model else [])
