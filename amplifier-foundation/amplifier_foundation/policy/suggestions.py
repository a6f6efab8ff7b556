"""Propose the few narrow rules that would have spared the most questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from amplifier_foundation.policy.past import PastAction, counted
from amplifier_foundation.policy.permissions import Permissions
from amplifier_kit.guard.policy import Rule

#: So many files of one folder that were granted one by one make a rule for the folder.
_FILES_OF_FOLDER: Final = 3
#: A rule that would have spared less is not worth reading.
LEAST: Final = 2


class Suggestion(NamedTuple):
    """A rule, how many questions it would have had a part in sparing, and some of what was asked then."""

    rule: Rule
    spared: int
    examples: tuple[str, ...]


class Suggestions(NamedTuple):
    """The rules that are worth it, and what they would have come to together."""

    rules: tuple[Suggestion, ...]
    #: How many questions there were, and how many of them would not have come up with all of these rules.
    asked: int
    spared: int
    #: Rules that would have spared questions, but would allow what was denied; each with that.
    refused: tuple[tuple[Rule, str], ...] = ()


class _Prompt(NamedTuple):
    past: PastAction
    times: int
    rules: tuple[Rule, ...]


def suggestions(actions: Iterable[PastAction], permissions: Permissions, *, least: int = LEAST) -> Suggestions:
    """Propose rules from what a person granted; none that would allow anything that was denied.

    Each is a rule that one "always" would have made, or stands for several files of one folder. What is allowed by now
    needs none, and what the log does not show in full gets none.
    """
    seen = list(counted(actions))
    prompts = [(past, count) for past, count in seen if past.then == "asked"]
    denied = [past for past, _ in seen if past.is_granted is False and not past.is_unanswered]
    open_prompts = [
        _Prompt(past, count, permissions.suggest(past.action, past.details))
        for past, count in prompts
        if past.is_granted and not past.is_masked and not past.is_unanswered
    ]
    wanted = _folded([prompt for prompt in open_prompts if prompt.rules])
    chosen, refused = _safe(wanted, permissions, denied)
    found = _worth_it(wanted, chosen, permissions, least)
    trial = permissions.allowing([suggestion.rule for suggestion in found])
    spared = sum(
        prompt.times for prompt in wanted if trial.judge(prompt.past.action, prompt.past.details).verdict == "allow"
    )
    return Suggestions(tuple(found), sum(count for _, count in prompts), spared if found else 0, tuple(refused))


def _folded(prompts: list[_Prompt]) -> list[_Prompt]:
    """Put one rule for a folder in the place of those for several of its files; never for the project's own folder."""
    files: dict[tuple[str | None, str], set[str]] = {}
    for prompt in prompts:
        for rule in prompt.rules:
            if (folder := _folder_of(rule)) is not None:
                files.setdefault((rule.action, folder), set()).add(str(rule.path))
    wide = {key for key, paths in files.items() if len(paths) >= _FILES_OF_FOLDER}

    def widened(rule: Rule) -> Rule:
        folder = _folder_of(rule)
        if folder is None or (rule.action, folder) not in wide:
            return rule
        return Rule("allow", action=rule.action, path=f"{folder}/*")

    return [prompt._replace(rules=tuple(dict.fromkeys(map(widened, prompt.rules)))) for prompt in prompts]


def _folder_of(rule: Rule) -> str | None:
    """Return the folder of a rule's file, None when a rule for all of it would be too much."""
    if rule.path is None or rule.path.startswith(("/", "~")):
        return None
    folder = PurePosixPath(rule.path).parent
    is_plain = bool(folder.parts) and not any(part.startswith(".") for part in PurePosixPath(rule.path).parts)
    return folder.as_posix() if is_plain else None


def _safe(
    prompts: list[_Prompt], permissions: Permissions, denied: list[PastAction]
) -> tuple[set[Rule], list[tuple[Rule, str]]]:
    """Take rules, the most useful first, and leave out each with which something that was denied would be allowed."""
    uses: Counter[Rule] = Counter()
    for prompt in prompts:
        uses.update(dict.fromkeys(prompt.rules, prompt.times))
    chosen: list[Rule] = []
    refused: list[tuple[Rule, str]] = []
    for rule, _ in uses.most_common():
        trial = permissions.allowing([*chosen, rule])
        wrong = next((past for past in denied if _opens(past, permissions, trial)), None)
        if wrong is None:
            chosen.append(rule)
        else:
            refused.append((rule, wrong.shown))
    return set(chosen), refused


def _opens(past: PastAction, before: Permissions, after: Permissions) -> bool:
    is_allowed = after.judge(past.action, past.details).verdict == "allow"
    return is_allowed and before.judge(past.action, past.details).verdict != "allow"


def _worth_it(prompts: list[_Prompt], chosen: set[Rule], permissions: Permissions, least: int) -> list[Suggestion]:
    """Return the rules that spare enough, the best first; a question is spared when all rules it needs are there."""
    while True:
        spared: Counter[Rule] = Counter()
        examples: dict[Rule, dict[str, None]] = {}
        for prompt in prompts:
            if chosen.issuperset(prompt.rules):
                for rule in prompt.rules:
                    spared[rule] += prompt.times
                    examples.setdefault(rule, {})[prompt.past.shown] = None
        kept = {rule for rule in chosen if spared[rule] >= least}
        if kept == chosen:
            break
        chosen = kept  # a question that needed a rule which is gone now is not spared any more
    best = sorted(kept, key=lambda rule: (-spared[rule], str(rule)))
    return [Suggestion(rule, spared[rule], tuple(examples[rule])[:3]) for rule in best]
