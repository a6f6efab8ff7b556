"""What keeps things from happening is tightened by a project that nobody trusts, never loosened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose
from amplifier_foundation.trust.store import TrustStore

MODULES = Path(__file__).resolve().parents[3] / "modules"
#: Every setting that a module which ships lists in its README, by what it is to a project that nobody trusts.
#: A new one is put here after asking: could a clone harm its user with it? `MODULE:KEY` is for one module alone.
TABLE: dict[str, str] = {
    # It keeps something out, opens something, is a limit of what may be reached, or is about what watches.
    "guard": """
        allowed_commands allowed_domains allowed_paths allowed_read_paths allowed_write_paths allowlist
        auto_cleanup_days auto_pull blocked_domains denied_commands denied_write_paths deployment_type enable_state
        enable_web_search exclude_hooks exclude_tools settings.exclude_hooks settings.exclude_tools free
        instruction_filters live_values pass_env price_list private_hosts prompt_cache_retention require_approval rules
        safety_identifier safety_overrides safety_profile sandbox
        hook-shell:claude_settings hook-shell:files hook-shell:hooks hook-shell:max_output hook-shell:on_error
        hook-shell:on_timeout hook-shell:priority hook-shell:timeout hook-shell:working_dir
        hooks-approval:audit hooks-approval:default_action hooks-approval:default_timeout
        hooks-approval:policy_driven_only hooks-approval:tools hooks-approval:working_dir
        hooks-logging:additional_events hooks-logging:auto_discover hooks-logging:exclude_events
        hooks-logging:priority hooks-logging:session_log_template hooks-logging:strip_raw hooks-logging:verify
        hooks-mode:infrastructure_tools tool-mode:gate_policy tool-recipes:session_dir
    """,
    # It decides where keys and prompts are sent, and who one is there.
    "endpoint": """
        api_key azure_endpoint base_url beta_headers extra_body extra_headers host managed_identity_client_id
        use_default_credential use_managed_identity
    """,
    # It says where something is read or written: not outside the project.
    "path": """
        chat_template custom_routing_dirs memory_files model_path record record_provider scenario search_paths
        server_log_dir skills skills_dirs transcript_path working_dir
    """,
    # Settings add to it what they say, and take nothing away.
    "added to": "tool-filesystem:denied_write_paths",
    # The module asks itself whether the project is trusted.
    "asked": "tool-mcp:servers hooks-notify-push:server tool-slash-command:commands",
    # Limits of effort and time, the choice of models, and what is shown: a project may have its own.
    "free": """
        hooks-deprecation:bundle_name hooks-deprecation:deprecations hooks-deprecation:message
        hooks-deprecation:migration hooks-deprecation:replacement hooks-deprecation:require_evidence
        hooks-deprecation:severity hooks-deprecation:sunset_date hooks-notify:min_iterations
        hooks-notify:preview_length hooks-notify:show_device hooks-notify:show_iteration_count
        hooks-notify:show_preview hooks-notify:show_project hooks-notify:sound hooks-notify:subtitle
        hooks-notify:suppress_if_focused hooks-notify-push:tags hooks-progress-monitor:read_threshold
        hooks-progress-monitor:same_file_threshold hooks-progress-monitor:warning_interval
        hooks-routing:default_matrix hooks-routing:overrides hooks-session-naming:initial_trigger_turn
        hooks-session-naming:max_description_length hooks-session-naming:max_name_length
        hooks-session-naming:model_role hooks-session-naming:update_interval_turns hooks-todo-display:max_width
        hooks-todo-display:mode hooks-todo-display:progress_bar_width hooks-todo-display:show_border
        hooks-todo-display:show_progress_bar hooks-todo-display:title tool-slash-command:command_timeout
        tool-slash-command:max_chars
        api api_version autostart background_timeout batch_size call_timeout
        circuit_breaker_cooldown circuit_breaker_threshold
        compact_threshold compaction_notice_enabled compaction_notice_min_level compaction_notice_token_reserve
        compaction_notice_verbosity connect_timeout context_window datetime_include_timezone debug default_deployment
        default_limit default_model default_provider effort enable_1m_context enable_long_context
        enable_prompt_caching enable_response_chaining enable_thinking engine extended_thinking extract_text
        fallback_cooldown_seconds fallback_haiku_model fallback_on_overload fallback_retry_count
        fallback_sonnet_model features.context_inheritance features.provider_selection features.self_delegation
        features.session_resume filtered git_include_branch git_include_commits git_include_main_branch
        git_include_status git_status_enable_path_filtering git_status_include_untracked git_status_max_lines
        git_status_max_tracked git_status_max_untracked git_status_show_filter_summary
        git_status_tier1_patterns_extend git_status_tier2_limit git_status_tier2_patterns_extend git_timeout
        glob.exclusions glob.max_results glob.timeout goal_busy_stall_min_overlap goal_busy_stall_window
        goal_default_cap goal_max_transcript_messages goal_model_role goal_provider_preferences goal_stall_threshold
        goal_summary_max_reasons goal_tool_content_clip_chars goal_transcript_char_budget gpu_layers
        grep.default_limits.content grep.default_limits.count grep.default_limits.files_with_matches grep.exclusions
        grep.max_file_size grep.timeout heartbeat_interval include_datetime include_git include_session include_usage
        inject_role instruction_callback_max_workers instruction_callback_timeout_s keep_alive lean loop_guard_stop
        loop_guard_warn max_bytes max_concurrent max_concurrent_requests max_content_size max_iterations
        max_message_bytes max_output_bytes max_output_tokens max_parallel max_recursion_depth max_redirects
        max_results max_retries max_retry_delay max_save_bytes max_skill_bytes max_tokens max_tokens_fallback
        max_tool_result_bytes max_tools min_delay_between_calls_ms min_retry_delay name num_ctx
        output_reserve_fraction overloaded_delay_multiplier parallel_tool_calls poll_interval priority
        prompt_cache_key prompt_cache_mib protected_recent protected_tool_results raw raw_debug reasoning
        reasoning_effort reasoning_summary recent_tool_threshold refusal_fallback_enabled refusal_fallback_model
        response_limit responses retry retry_jitter search_engine seed send_reasoning send_session_id
        settings.heartbeat_interval
        settings.max_parallel settings.max_recursion_depth settings.response_limit settings.timeout skip_events speed
        startup_wait stop stream_delay stream_idle_timeout structured_output structured_output_retries target_usage
        task_budget_tokens temperature think_tags thinking_budget_buffer thinking_budget_tokens thinking_display
        thinking_type threads throttle_delay throttle_threshold timeout token_meter tool_timeout tool_timeouts top_p
        truncate_boundary truncate_chars truncation ui.show_text_stream ui.show_thinking_stream ui.show_token_usage
        ui.show_tool_lines use_streaming verbose_servers visibility visibility.enabled visibility.inject_role
        visibility.max_skills_visible visibility.placement visibility.priority warmup_retries web_search_max_uses
        web_search_user_location
    """,
}
KIND = {key: kind for kind, keys in TABLE.items() for key in keys.split()}
#: Flags and numbers that are named like paths.
NO_PATHS = (
    *("git_status_enable_path_filtering", "grep.max_file_size", "grep.default_limits.files_with_matches"),
    *("visibility.max_skills_visible", "same_file_threshold"),
)
SAYS = {
    "decides where credentials and prompts are sent": "endpoint",
    "leads out of the project": "path",
    "takes the place of something that keeps things from happening": "guard",
}
_HEADER = re.compile(r"\| Key (?:of `(features|settings)` )?\| Default")
MINE = """\
bundle: {name: mine}
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}, sandbox: required}
tools:
  - {module: tool-web, config: {allowed_domains: [a.example], blocked_domains: [localhost]}}
  - {module: tool-search, config: {allowed_paths: [src]}}
  - {module: tool-filesystem, config: {allowed_read_paths: [src], denied_write_paths: [secrets]}}
  - {module: tool-apply-patch, config: {denied_write_paths: [secrets]}}
  - {module: tool-delegate, config: {settings: {exclude_tools: [tool-bash]}}}
  - {module: tool-bash}
hooks:
  - {module: hooks-logging}
  - {module: hooks-redaction, id: masks}
  - {module: hooks-approval, id: rules-of-mine, config: {rules: [{action: process.exec, verdict: deny}]}}
  - {module: hook-shell, config: {hooks: {PreToolUse: [{hooks: [{type: command, command: "exit 2"}]}]}}}
agents:
  reader: {description: d, instruction: i, tools: [{module: tool-filesystem, config: {allowed_write_paths: []}}]}
"""
AGENT = "agents: {{{}: {{description: d, instruction: i, {}}}}}"


def settings_of_modules() -> list[tuple[str, str]]:
    """Return every module that ships with every setting that its README lists."""
    found: list[tuple[str, str]] = []
    for readme in sorted(MODULES.glob("*/README.md")):
        prefix: str | None = None
        for line in readme.read_text(encoding="utf-8").splitlines():
            if header := _HEADER.match(line):
                prefix = f"{header[1]}." if header[1] else ""
            elif not line.startswith("|"):
                prefix = None
            elif prefix is not None:
                keys = re.findall(r"`([\w.]+)`", line.split("|")[1])
                found += [(readme.parent.name, f"{prefix}{key}") for key in keys]
    return list(dict.fromkeys(found))


def _kind(module: str, key: str) -> str:
    return KIND.get(f"{module}:{key}") or KIND.get(key, "nobody has said")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with a bundle of the user's that has every kind of guard."""
    home = Home(tmp_path / "home")
    home.bundles.mkdir(parents=True)
    (home.bundles / "mine.yaml").write_text(MINE, encoding="utf-8")
    home.settings.write_text("bundle: {active: mine}\n", encoding="utf-8")
    return home


async def refused(home: Home, tmp_path: Path, files: dict[str, str]) -> list[str]:
    """Return what is refused of a project with these files."""
    project = tmp_path / "project"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    return [refusal.what for refusal in (await compose(Options(home, project, environ={}))).refusals]


def test_every_setting_is_in_the_table() -> None:
    """Whoever adds a setting to a module says what it is to a project that nobody trusts, and nothing else is there."""
    listed = settings_of_modules()
    assert len(listed) > 300
    assert [(module, key) for module, key in listed if _kind(module, key) == "nobody has said"] == []
    names = {key for _, key in listed} | {f"{module}:{key}" for module, key in listed}
    assert set(KIND) <= names
    assert len(KIND) == sum(len(keys.split()) for keys in TABLE.values()), "one is there twice"


async def test_the_table_is_true(home: Home, tmp_path: Path) -> None:
    """What an untrusted project's settings say of any module is refused as the table says, and nothing else is."""
    providers = {module for module, _ in settings_of_modules() if module.startswith("provider-")}
    with (home.bundles / "mine.yaml").open("a", encoding="utf-8") as file:
        file.write(f"providers: [{', '.join(f'{{module: {provider}}}' for provider in sorted(providers))}]\n")
    overrides: dict[str, Any] = {}
    for module, key in settings_of_modules():
        place = overrides.setdefault(module, {"config": {}})["config"]
        *above, last = key.split(".")
        for name in above:
            place = place.setdefault(name, {})
        place.setdefault(last, 1 if key in NO_PATHS else ["/etc/x"])
    whats = await refused(home, tmp_path, {".amplifier/settings.yaml": yaml.safe_dump({"overrides": overrides})})
    found: dict[tuple[str, str], set[str]] = {}
    for what in whats:
        at, _, does = what.partition(" ")
        module, _, key = at.removeprefix("overrides.").removeprefix("providers.").partition(".config.")
        found.setdefault((module, re.sub(r"\.\d+$", "", key)), set()).add(SAYS[does])
    for module, key in settings_of_modules():
        kind = _kind(module, key)
        said = found.get((module, key), set())
        assert (kind in said) if kind in ("guard", "endpoint", "path") else not said, (module, key, said)


@pytest.mark.parametrize(
    "settings",
    [
        "overrides: {tool-web: {config: {private_hosts: [localhost]}}}",
        "overrides: {tool-web: {config: {blocked_domains: []}}}",
        "overrides: {tool-web: {config: {allowed_domains: []}}}",
        "modules: {tools: [{module: tool-web, id: config, config: {private_hosts: [localhost]}}]}",
        "modules: {tools: [{module: tool-web, id: sandbox, config: {private_hosts: [localhost]}}]}",
        "overrides: {tool-filesystem: {config: {denied_write_paths: null}}}",
        "overrides: {tool-apply-patch: {config: {denied_write_paths: []}}}",
        "overrides: {tool-filesystem: {config: {allowed_write_paths: [docs]}}}",
        "overrides: {tool-delegate: {config: {settings: {inherit_tools: [tool-bash]}}}}",
        "modules: {hooks: [{module: hooks-approval, id: rules-of-mine, config: {rules: []}}]}",
        "modules: {hooks: [{module: hooks-redaction, id: masks, config: {rules: []}}]}",
        "modules: {hooks: [{module: hooks-logging, config: {exclude_events: ['approval:*', 'tool:*']}}]}",
        "modules: {hooks: [{module: hooks-logging, id: other, config: {strip_raw: 3}}]}",
        "config: {providers: [{module: provider-mock, config: {enable_web_search: true}}]}",
        "bundle: {app: []}",
    ],
)
async def test_settings_of_a_project_loosen_nothing(home: Home, tmp_path: Path, settings: str) -> None:
    """Whatever the name, the shape or the place, it needs trust, and with trust it is let pass."""
    home.settings.write_text("bundle: {active: mine, app: [always]}\n", encoding="utf-8")
    (home.bundles / "always.yaml").write_text("bundle: {name: always}\n", encoding="utf-8")
    files = {".amplifier/settings.yaml": f"{settings}\n"}
    assert any("keeps things from happening" in what for what in await refused(home, tmp_path, files))
    TrustStore(home).trust(tmp_path / "project")
    assert await refused(home, tmp_path, files) == []


@pytest.mark.parametrize("listed", ["{}", "bundle: {app: [always]}", "bundle: {added: {other: ./x}}"])
async def test_a_project_slips_nothing_under_a_bundle_of_every_session(home: Home, tmp_path: Path, listed: str) -> None:
    """A bundle of the project that has the name of one that the user wants everywhere needs trust."""
    home.settings.write_text("bundle: {active: mine, app: [always]}\n", encoding="utf-8")
    (home.bundles / "always.yaml").write_text("bundle: {name: always}\n", encoding="utf-8")
    files = {".amplifier/settings.yaml": f"{listed}\n"}
    assert await refused(home, tmp_path, files) == []
    files[".amplifier/bundles/always.yaml"] = "bundle: {name: always}\n"
    [what] = await refused(home, tmp_path, files)
    assert what == "bundle 'always' takes the place of something that keeps things from happening"


@pytest.mark.parametrize(
    "settings",
    [
        "overrides: {tool-filesystem: {config: {denied_write_paths: [docs], allowed_write_paths: []}}}",
        "overrides: {tool-web: {config: {timeout: 5, max_redirects: 0}}}",
        "overrides: {provider-mock: {config: {enable_state: false}}}",
        "modules: {tools: [{module: tool-x, config: {allowed_hosts: [a.example]}}]}",
        "bundle: {app: [always, more]}",
    ],
)
async def test_settings_of_a_project_may_tighten(home: Home, tmp_path: Path, settings: str) -> None:
    """What adds to a guard, is a limit where there was none, or opens nothing, needs no trust."""
    home.settings.write_text("bundle: {active: mine, app: [always]}\n", encoding="utf-8")
    for name in ("always", "more"):
        (home.bundles / f"{name}.yaml").write_text(f"bundle: {{name: {name}}}\n", encoding="utf-8")
    assert await refused(home, tmp_path, {".amplifier/settings.yaml": f"{settings}\n"}) == []


@pytest.mark.parametrize(
    ("part", "is_refused"),
    [
        ("tools: [{module: tool-bash, config: {safety_overrides: {allow: [sudo]}}}]", True),
        ("tools: [{module: tool-bash, config: {safety_overrides: {block: [make]}}}]", False),
        ("tools: [{module: tool-bash, config: {safety_profile: unrestricted}}]", True),
        ("tools: [{module: tool-web, config: {private_hosts: [localhost]}}]", True),
        ("tools: [{module: tool-web, config: {blocked_domains: [b.example]}}]", False),
        ("tools: [{module: tool-web, config: {allowed_domains: [b.example]}}]", True),
        ("hooks: [{module: hooks-approval, config: {rules: [{action: mcp.call, verdict: deny}]}}]", False),
        ("hooks: [{module: hooks-approval, config: {default_action: allow}}]", True),
        ("hooks: [{module: hooks-logging, config: {exclude_events: ['*']}}]", True),
        ("hooks: [{module: hooks-logging}]", False),
        ("spawn: {exclude_tools: [tool-web]}", True),
        (AGENT.format("sandbox", "tools: [{module: tool-web, config: {private_hosts: [localhost]}}]"), True),
        (AGENT.format("x", "spawn: {tools: [{module: tool-bash, config: {pass_env: [TOKEN]}}]}"), True),
        (AGENT.format("x", "tools: [{module: tool-filesystem, config: {denied_write_paths: []}}]"), True),
        (AGENT.format("x", "tools: [{module: tool-filesystem, config: {allowed_write_paths: []}}]"), False),
    ],
)
async def test_bundles_of_a_project_loosen_nothing(home: Home, tmp_path: Path, part: str, is_refused: bool) -> None:
    """A bundle of the project beside the user's adds to lists; what opens something, or takes a place, needs trust."""
    home.settings.write_text("bundle: {active: theirs, app: [mine]}\n", encoding="utf-8")
    files = {".amplifier/bundles/theirs.yaml": f"bundle: {{name: theirs}}\n{part}\n"}
    whats = await refused(home, tmp_path, files)
    assert bool(whats) is is_refused, whats
    assert all("keeps things from happening" in what for what in whats)
