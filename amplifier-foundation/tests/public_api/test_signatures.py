"""The signatures of the published names: what callers pass, and what they await."""

from __future__ import annotations

import importlib
import inspect

import pytest

import amplifier_foundation

ASYNC = """
registry.load_bundle source *auto_include *registry *strict
bundle.Bundle.prepare install_deps source_resolver progress_callback strict
bundle.PreparedBundle.create_session session_id parent_id approval_system display_system session_cwd is_resumed
bundle.PreparedBundle.spawn child_bundle instruction *compose *parent_session *session_id *orchestrator_config
    *parent_messages *session_cwd *provider_preferences *self_delegation_depth
bundle.BundleModuleResolver.async_resolve module_id source_hint profile_hint
spawn_utils.resolve_model_pattern model_hint provider_name coordinator
spawn_utils.apply_provider_preferences_with_resolution mount_plan preferences coordinator
registry.BundleRegistry.load name_or_uri *auto_register
registry.BundleRegistry.check_update name
registry.BundleRegistry.update name
updates.check_bundle_status bundle cache_dir
updates.update_bundle bundle cache_dir selective install_deps
mentions.load_mentions text resolver deduplicator relative_to max_depth
mentions.expand_mentions_in_instruction text *resolver *deduplicator *relative_to
cost.bridge_child_cost child_coordinator parent_coordinator child_session_id
configurator.SessionConfigurator.tool_disable name
configurator.SessionConfigurator.tool_enable name
configurator.SessionConfigurator.tool_disable_module module
configurator.SessionConfigurator.tool_enable_module module
configurator.SessionConfigurator.provider_disable name
configurator.SessionConfigurator.provider_enable name
configurator.SessionConfigurator.behavior_disable name
configurator.SessionConfigurator.behavior_enable name
configurator.SessionConfigurator.apply_saved_settings settings
runtime_overlay.RuntimeOverlay.apply scope contributions
runtime_overlay.RuntimeOverlay.revoke scope
subprocess_runner.run_session_in_subprocess config prompt parent_id project_path session_id timeout module_paths
    bundle_package_paths sys_paths mention_mappings
paths.resolution.find_files base pattern recursive
paths.resolution.find_bundle_root start
io.read_yaml path
io.write_yaml path data
io.read_with_retry path max_retries initial_delay
io.write_with_retry path content max_retries initial_delay
sources.resolver.SimpleSourceResolver.resolve uri
modules.ModuleActivator.activate module_name source_uri progress_callback
"""
SYNC = """
bundle.Bundle.compose others
bundle.Bundle.to_mount_plan
bundle.Bundle.resolve_context_path name
bundle.Bundle.resolve_agent_path name
bundle.Bundle.get_system_instruction
bundle.Bundle.resolve_pending_context
bundle.Bundle.load_agent_metadata
bundle.Bundle.validate_modes
bundle.Bundle.from_dict data base_path
bundle.BundleModuleResolver module_paths activator
bundle.BundleModuleResolver.resolve module_id source_hint profile_hint
bundle.BundleModuleResolver.get_module_source module_id
bundle.BundleModuleSource path
spawn_utils.ProviderPreference provider model config
registry.BundleRegistry home *strict *include_source_resolver
registry.BundleRegistry.register bundles
registry.BundleRegistry.find name
registry.BundleRegistry.list_registered
registry.BundleRegistry.unregister name
registry.BundleRegistry.get_state name
registry.BundleRegistry.save
registry.BundleRegistry.set_include_source_resolver resolver
registry.UpdateInfo name current_version available_version uri
sources.protocol.SourceStatus source_uri is_cached cached_at cached_ref cached_commit remote_ref remote_commit
    has_update error summary
mentions.BaseMentionResolver bundles base_path
mentions.BaseMentionResolver.resolve mention
tracing.generate_sub_session_id agent_name parent_session_id parent_trace_id
serialization.sanitize_for_json value *max_depth
io.write_with_backup path content *backup_suffix *mode *encoding
configurator.SessionConfigurator session prepared
configurator.SessionConfigurator.take_snapshot
configurator.SessionConfigurator.diff_from_original
configurator.SessionConfigurator.hook_disable name
configurator.SessionConfigurator.context_enable name
configurator.SessionConfigurator.agent_disable name
configurator.SessionConfigurator.config_set path value
configurator.SessionConfigurator.save scope
runtime_overlay.RuntimeOverlay coordinator *success_event *failure_event *bundle
sources.resolver.SimpleSourceResolver cache_dir base_path
validator.BundleValidator *strict
"""
SUBMODULE_ONLY = {
    "bundle": "PreparedBundle BundleModuleResolver BundleModuleSource",
    "mentions": "format_context_block format_directory_listing",
    "paths.resolution": "get_amplifier_home ResolvedSource",
    "sources": "SimpleSourceResolver SourceResolverProtocol SourceHandlerProtocol SourceStatus GitSourceHandler",
    "sources.git": "GitSourceHandler",
    "sources.protocol": "SourceStatus",
    "modules": "ModuleActivator ModuleActivationError",
    "paths": "parse_uri normalize_path construct_agent_path construct_context_path find_files find_bundle_root",
}


def _table(text: str) -> list[tuple[str, list[str]]]:
    joined = text.strip().replace("\n    ", " ")
    return [(line.split()[0], line.split()[1:]) for line in joined.splitlines()]


def _find(path: str) -> object:
    parts = path.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(["amplifier_foundation", *parts[:depth]]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            value = getattr(value, part)
        return value
    raise AssertionError(path)


def _parameters(value: object) -> list[str]:
    assert callable(value)
    given = [one for name, one in inspect.signature(value).parameters.items() if name != "self"]
    return [f"*{one.name}" if one.kind is inspect.Parameter.KEYWORD_ONLY else one.name for one in given]


def test_there_are_as_many_names_as_published() -> None:
    """`import *` gives the 71 published names."""
    names: dict[str, object] = {}
    exec("from amplifier_foundation import *", names)
    del names["__builtins__"]
    assert len(names) == 71
    assert set(names) == set(amplifier_foundation.__all__)


@pytest.mark.parametrize(("path", "parameters"), _table(ASYNC), ids=lambda value: str(value)[:40])
def test_what_is_awaited_takes_what_is_passed(path: str, parameters: list[str]) -> None:
    """Published coroutine functions are coroutine functions here, with parameters of the same names and order."""
    value = _find(path)
    assert inspect.iscoroutinefunction(value)
    assert _parameters(value)[: len(parameters)] == parameters


@pytest.mark.parametrize(("path", "parameters"), _table(SYNC), ids=lambda value: str(value)[:40])
def test_what_is_called_takes_what_is_passed(path: str, parameters: list[str]) -> None:
    """Published plain functions are plain functions here, with parameters of the same names and order."""
    value = _find(path)
    assert not inspect.iscoroutinefunction(value)
    assert _parameters(value)[: len(parameters)] == parameters


@pytest.mark.parametrize(("module", "names"), SUBMODULE_ONLY.items(), ids=list(SUBMODULE_ONLY))
def test_submodules_have_their_names(module: str, names: str) -> None:
    """What published code imports from submodules is there."""
    found = importlib.import_module(f"amplifier_foundation.{module}")
    for name in names.split():
        assert getattr(found, name) is not None
