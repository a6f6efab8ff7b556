"""Lay one bundle over another.

| part | rule |
|---|---|
| name, version, file, base path, address | the later one's |
| description, instruction | the later one's when it is not empty |
| session, spawn, a top-level orchestrator | key by key; lists joined, each item once |
| providers, tools, hooks | by `id`, else `module`: entries of one key are merged; order as first seen |
| agents | by name, the later definition whole |
| context, packages, sources | all of them, in order |
| namespaces | the first registration of a name |

An instruction replaced by any but that of the including bundle is a warning: no prompt is lost silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.bundle import Bundle, Layer
from amplifier_foundation.merge import COMPOSE, copied, merge, merge_modules


def compose(base: Bundle, over: Bundle, *, as_behavior: bool = False, includes_base: bool = False) -> Bundle:
    """Return `over` laid on `base`; neither is changed. A replaced prompt of `base` is reported as a warning, unless
    `over` is the file that includes `base`.

    With `as_behavior`, `over` adds to `base` without becoming it: name, version, description, file and a prompt that is
    not empty stay those of `base`, and a prompt of `over` that is left out is reported as a warning.
    """
    main, other = (base, over) if as_behavior else (over, base)
    lost = [] if includes_base else _lost_prompt(other, main)
    lost += _borrowed_sources(base, over)
    composed = replace(
        main,
        description=main.description or other.description,
        instruction=main.instruction or other.instruction,
        session=merge(base.session, over.session, COMPOSE),
        spawn=merge(base.spawn, over.spawn, COMPOSE),
        orchestrator=_one_value(base.orchestrator, over.orchestrator),
        agents=copied({**base.agents, **over.agents}),
        agent_namespaces={**base.agent_namespaces, **over.agent_namespaces},
        context={**base.context, **over.context},
        pending_context=tuple(dict.fromkeys((*base.pending_context, *over.pending_context))),
        namespaces={**over.namespaces, **base.namespaces},
        packages=tuple(dict.fromkeys((*base.packages, *over.packages))),
        layers=_ends((*base.layers, *over.layers)),
        warnings=tuple(dict.fromkeys((*base.warnings, *over.warnings, *lost))),
        sources={**base.sources, **over.sources},
    )
    for section in MODULE_SECTIONS:
        merged = merge_modules(getattr(base, section), getattr(over, section), COMPOSE, (section,))
        setattr(composed, section, merged)
    return resolve_pending(composed)


def compose_all(bundles: list[Bundle]) -> Bundle:
    """Return all bundles laid on each other, the last one on top."""
    composed = bundles[0]
    for bundle in bundles[1:]:
        composed = compose(composed, bundle)
    return composed


def resolve_pending(bundle: Bundle) -> Bundle:
    """Return the bundle with the context whose namespace has become known."""
    context, pending = dict(bundle.context), []
    for reference in bundle.pending_context:
        namespace, _, path = reference.partition(":")
        if namespace in bundle.namespaces:
            context[reference] = bundle.namespaces[namespace] / path
        else:
            pending.append(reference)
    return replace(bundle, context=context, pending_context=tuple(pending)) if bundle.pending_context else bundle


def namespace_clash(name: str, first: Path, second: Path) -> str | None:
    """Return a warning when two unrelated places claim one namespace, of which only the first gets it."""
    one, other = first.resolve(), second.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        return None  # a bundle and a part of it
    return f"two bundles claim the namespace {name!r}: it means {first}, and {second} is not reached by it"


def _one_value(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return merge(base, over, COMPOSE)
    return copied(base if over is None else over)


def _lost_prompt(lost: Bundle, kept: Bundle) -> list[str]:
    if not lost.instruction or not kept.instruction or lost.instruction == kept.instruction:
        return []
    return [f"the instruction of {_called(lost)} is not used: that of {_called(kept)} takes its place"]


def _borrowed_sources(base: Bundle, over: Bundle) -> list[str]:
    """Return a warning for each session module that gets the source of another one, by merging key by key."""
    warnings = []
    for kind in SESSION_MODULES:
        one, other = base.session.get(kind), over.session.get(kind)
        if not isinstance(one, Mapping) or not isinstance(other, Mapping) or not one.get("source"):
            continue
        if other.get("module") not in (None, one.get("module")) and "source" not in other:
            warnings.append(
                f"session.{kind}: {other['module']!r} of {_called(over)} gets the source that {_called(base)} gives "
                f"for {one.get('module')!r}: give it a source of its own, or `source: null` for an installed module"
            )
    return warnings


def _called(bundle: Bundle) -> str:
    return f"{bundle.name!r} ({bundle.file})" if bundle.file is not None else repr(bundle.name)


def _ends(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers with the first and the last appearance of each file.

    A file that several includes share is composed once for each of them. Appearances between its first (which gives the
    order of lists) and its last (which wins) change nothing, and would double with every level of sharing.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, layer in enumerate(layers):
        first.setdefault(id(layer), index)
        last[id(layer)] = index
    kept = {*first.values(), *last.values()}
    return tuple(layer for index, layer in enumerate(layers) if index in kept)
