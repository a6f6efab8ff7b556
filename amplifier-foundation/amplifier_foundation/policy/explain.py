"""Explain why an action is allowed, asked or denied, and what would change that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amplifier_foundation.policy.permissions import Judgement, Permissions, known_action, named_details
from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.named_tuple import NamedTuple


class Explanation(NamedTuple):
    """A judgement with its parts, and what would change it."""

    #: The action as it is judged: published tools are judged by what they do.
    action: str
    judgement: Judgement
    parts: tuple[Judgement, ...]
    #: The narrowest rules that would allow it; empty when no further rule does.
    rules: tuple[Rule, ...]
    #: What would change it, in sentences.
    advice: tuple[str, ...]


def explain(permissions: Permissions, action: str, details: Mapping[str, Any]) -> Explanation:
    """Explain the verdict on an action; never raises."""
    judged = permissions.judge(action, details)
    parts = permissions.parts(action, details)
    rules = permissions.suggest(action, details)
    refused = tuple(_refused_by_tool(permissions, action, details))
    advice = [
        *_advice(permissions, judged, parts, () if refused else rules),
        *refused,
        *(_unknown(permissions, action, details) if judged.verdict != "allow" and not rules else ()),
        *_trust_advice(permissions, action, details, judged),
    ]
    return Explanation(known_action(action, details), judged, parts, rules, tuple(advice))


def _advice(
    permissions: Permissions, judged: Judgement, parts: tuple[Judgement, ...], rules: tuple[Rule, ...]
) -> Iterator[str]:
    if judged.verdict == "allow":
        yield "a rule that asks for it or denies it, in any policy file, is stronger than those that allow it"
        return
    floors = {rule for source in permissions.sources for rule in source.floors}
    for rule, word in _restrictions(parts).items():
        if rule in floors:
            yield f"{rule.where}: repair this entry: `{rule}` takes its place until then"
        else:
            yield f"{rule.where or 'a rule'}: remove `{rule}` or make it narrower: {word}"
    for part in parts:
        if part.rule is not None and part.rule in permissions.guards:
            yield f"{part.what}: it is asked for each time, whatever rules allow"
    if rules:
        listed = ", ".join(f"`{rule}`" for rule in rules)
        yield f"{'this rule' if len(rules) == 1 else 'these rules'} would allow it: {listed}"


def _unknown(permissions: Permissions, action: str, details: Mapping[str, Any]) -> Iterator[str]:
    """Say what about an action keeps narrow rules from allowing it."""
    known = facts(known_action(action, details), named_details(action, details), permissions.project)
    reasons = [known.problem, *(segment.problem for segment in known.commands or ())]
    for reason in dict.fromkeys(filter(None, reasons)):
        yield f"no rule that names a command, a path or a host allows it: {reason}"


def _refused_by_tool(permissions: Permissions, action: str, details: Mapping[str, Any]) -> Iterator[str]:
    """Explain that the tool itself refuses addresses that no rule allows."""
    from amplifier_kit.guard.network import is_address, is_public

    known = facts(known_action(action, details), named_details(action, details), permissions.project)
    for host in known.hosts if known.action == "network.fetch" else ():
        if host.rpartition(".")[2] == "localhost" or (is_address(host) and not is_public(host)):
            yield f"web_fetch refuses {host} whatever rules say, unless `private_hosts` of tool-web names it"


def _restrictions(parts: tuple[Judgement, ...]) -> dict[Rule, str]:
    """Return the rules of people that prevent it, each with why no other rule overrides it."""
    words = {"deny": "deny is absolute", "ask": "ask is a floor, no rule that allows lifts it"}
    return {
        part.rule: words[part.verdict]
        for part in parts
        if part.rule is not None and part.verdict in words and part.scope != "default"
    }


def _trust_advice(
    permissions: Permissions, action: str, details: Mapping[str, Any], judged: Judgement
) -> Iterator[str]:
    untrusted = [source for source in permissions.sources if not source.may_allow]
    if not untrusted:
        return
    trusted = permissions.with_sources(source._replace(may_allow=True) for source in permissions.sources)
    then = trusted.judge(action, details)
    if then.verdict != judged.verdict:
        origins = ", ".join(source.origin for source in untrusted)
        yield f"were the project trusted (`amplifier trust`), {origins} would count in full: {then.verdict}"
