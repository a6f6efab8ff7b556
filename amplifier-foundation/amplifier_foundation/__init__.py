"""Libraries for applications on the kernel: bundles, sources, settings, sessions and their children.

The names here are those that apps and modules written for the published foundation import, from here or from the
module that each is listed under. They are resolved when first used; those for saved sessions are in `session`. Our own
code imports from the rooms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "3.0.0"

#: Each public name, and the module that defines it.
_HOMES: dict[str, str] = {
    name: home
    for home, names in {
        "bundle": "Bundle",
        "cache": "CacheProviderProtocol DiskCache SimpleCache",
        "configurator": "SessionConfigurator",
        "cost": "bridge_child_cost sum_cost_usd",
        "dicts": "deep_merge get_nested merge_module_lists set_nested",
        "event_logging": "inject_additional_events",
        "exceptions": "BundleDependencyError BundleError BundleLoadError BundleNotFoundError BundleValidationError",
        "io": "parse_frontmatter read_with_retry read_yaml write_with_backup write_with_retry write_yaml",
        "mentions": (
            "BaseMentionResolver ContentDeduplicator ContextFile MentionResolverProtocol MentionResult "
            "expand_mentions_in_instruction load_mentions parse_mentions"
        ),
        "paths.resolution": (
            "ParsedURI construct_agent_path construct_context_path find_bundle_root find_files normalize_path parse_uri"
        ),
        "registry": "BundleRegistry BundleState UpdateInfo load_bundle",
        "runtime_overlay": (
            "RUNTIME_CONTEXT_OVERLAY_CAPABILITY RUNTIME_SKILL_OVERLAY_CAPABILITY RuntimeOverlay TransitionResult"
        ),
        "serialization": "sanitize_for_json sanitize_message",
        "sources.protocol": (
            "SourceHandlerProtocol SourceHandlerWithStatusProtocol SourceResolverProtocol SourceStatus"
        ),
        "sources.resolver": "SimpleSourceResolver",
        "spawn_utils": (
            "ModelResolutionResult ProviderPreference apply_provider_preferences "
            "apply_provider_preferences_with_resolution is_glob_pattern resolve_model_pattern"
        ),
        "subprocess_runner": "run_session_in_subprocess",
        "tracing": "generate_sub_session_id",
        "updates": "BundleStatus check_bundle_status update_bundle",
        "validator": "BundleValidator ValidationResult validate_bundle validate_bundle_or_raise",
        "working_dir": "WORKING_DIR_CAPABILITY get_working_dir set_working_dir",
    }.items()
    for name in names.split()
}

__all__ = [*_HOMES]

if TYPE_CHECKING:
    from amplifier_foundation.bundle import Bundle as Bundle
    from amplifier_foundation.cache import CacheProviderProtocol as CacheProviderProtocol
    from amplifier_foundation.cache import DiskCache as DiskCache
    from amplifier_foundation.cache import SimpleCache as SimpleCache
    from amplifier_foundation.configurator import SessionConfigurator as SessionConfigurator
    from amplifier_foundation.cost import bridge_child_cost as bridge_child_cost
    from amplifier_foundation.cost import sum_cost_usd as sum_cost_usd
    from amplifier_foundation.dicts import deep_merge as deep_merge
    from amplifier_foundation.dicts import get_nested as get_nested
    from amplifier_foundation.dicts import merge_module_lists as merge_module_lists
    from amplifier_foundation.dicts import set_nested as set_nested
    from amplifier_foundation.event_logging import inject_additional_events as inject_additional_events
    from amplifier_foundation.exceptions import BundleDependencyError as BundleDependencyError
    from amplifier_foundation.exceptions import BundleError as BundleError
    from amplifier_foundation.exceptions import BundleLoadError as BundleLoadError
    from amplifier_foundation.exceptions import BundleNotFoundError as BundleNotFoundError
    from amplifier_foundation.exceptions import BundleValidationError as BundleValidationError
    from amplifier_foundation.io import parse_frontmatter as parse_frontmatter
    from amplifier_foundation.io import read_with_retry as read_with_retry
    from amplifier_foundation.io import read_yaml as read_yaml
    from amplifier_foundation.io import write_with_backup as write_with_backup
    from amplifier_foundation.io import write_with_retry as write_with_retry
    from amplifier_foundation.io import write_yaml as write_yaml
    from amplifier_foundation.mentions import BaseMentionResolver as BaseMentionResolver
    from amplifier_foundation.mentions import ContentDeduplicator as ContentDeduplicator
    from amplifier_foundation.mentions import ContextFile as ContextFile
    from amplifier_foundation.mentions import MentionResolverProtocol as MentionResolverProtocol
    from amplifier_foundation.mentions import MentionResult as MentionResult
    from amplifier_foundation.mentions import expand_mentions_in_instruction as expand_mentions_in_instruction
    from amplifier_foundation.mentions import load_mentions as load_mentions
    from amplifier_foundation.mentions import parse_mentions as parse_mentions
    from amplifier_foundation.paths.resolution import ParsedURI as ParsedURI
    from amplifier_foundation.paths.resolution import construct_agent_path as construct_agent_path
    from amplifier_foundation.paths.resolution import construct_context_path as construct_context_path
    from amplifier_foundation.paths.resolution import find_bundle_root as find_bundle_root
    from amplifier_foundation.paths.resolution import find_files as find_files
    from amplifier_foundation.paths.resolution import normalize_path as normalize_path
    from amplifier_foundation.paths.resolution import parse_uri as parse_uri
    from amplifier_foundation.registry import BundleRegistry as BundleRegistry
    from amplifier_foundation.registry import BundleState as BundleState
    from amplifier_foundation.registry import UpdateInfo as UpdateInfo
    from amplifier_foundation.registry import load_bundle as load_bundle
    from amplifier_foundation.runtime_overlay import (
        RUNTIME_CONTEXT_OVERLAY_CAPABILITY as RUNTIME_CONTEXT_OVERLAY_CAPABILITY,
    )
    from amplifier_foundation.runtime_overlay import (
        RUNTIME_SKILL_OVERLAY_CAPABILITY as RUNTIME_SKILL_OVERLAY_CAPABILITY,
    )
    from amplifier_foundation.runtime_overlay import RuntimeOverlay as RuntimeOverlay
    from amplifier_foundation.runtime_overlay import TransitionResult as TransitionResult
    from amplifier_foundation.serialization import sanitize_for_json as sanitize_for_json
    from amplifier_foundation.serialization import sanitize_message as sanitize_message
    from amplifier_foundation.sources.protocol import SourceHandlerProtocol as SourceHandlerProtocol
    from amplifier_foundation.sources.protocol import SourceHandlerWithStatusProtocol as SourceHandlerWithStatusProtocol
    from amplifier_foundation.sources.protocol import SourceResolverProtocol as SourceResolverProtocol
    from amplifier_foundation.sources.protocol import SourceStatus as SourceStatus
    from amplifier_foundation.sources.resolver import SimpleSourceResolver as SimpleSourceResolver
    from amplifier_foundation.spawn_utils import ModelResolutionResult as ModelResolutionResult
    from amplifier_foundation.spawn_utils import ProviderPreference as ProviderPreference
    from amplifier_foundation.spawn_utils import apply_provider_preferences as apply_provider_preferences
    from amplifier_foundation.spawn_utils import (
        apply_provider_preferences_with_resolution as apply_provider_preferences_with_resolution,
    )
    from amplifier_foundation.spawn_utils import is_glob_pattern as is_glob_pattern
    from amplifier_foundation.spawn_utils import resolve_model_pattern as resolve_model_pattern
    from amplifier_foundation.subprocess_runner import run_session_in_subprocess as run_session_in_subprocess
    from amplifier_foundation.tracing import generate_sub_session_id as generate_sub_session_id
    from amplifier_foundation.updates import BundleStatus as BundleStatus
    from amplifier_foundation.updates import check_bundle_status as check_bundle_status
    from amplifier_foundation.updates import update_bundle as update_bundle
    from amplifier_foundation.validator import BundleValidator as BundleValidator
    from amplifier_foundation.validator import ValidationResult as ValidationResult
    from amplifier_foundation.validator import validate_bundle as validate_bundle
    from amplifier_foundation.validator import validate_bundle_or_raise as validate_bundle_or_raise
    from amplifier_foundation.working_dir import WORKING_DIR_CAPABILITY as WORKING_DIR_CAPABILITY
    from amplifier_foundation.working_dir import get_working_dir as get_working_dir
    from amplifier_foundation.working_dir import set_working_dir as set_working_dir


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
