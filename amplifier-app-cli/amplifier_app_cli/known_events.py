"""The names of all events: those of the kernel, and what parts of this product emit besides."""

from __future__ import annotations

from typing import Final

#: The rows of `Further events of this product` in docs/contracts/events.md.
_OF_PRODUCT: Final = (
    *("apply-patch:applied", "approval:answered", "approval:escalated", "approval:waiting", "budget:exhausted"),
    *("budget:warning", "context:compact_skipped", "context:pre-compact", "delegate:agent_cancelled"),
    *("delegate:agent_completed", "delegate:agent_resumed", "delegate:agent_spawned", "delegate:error"),
    *("delegation:heartbeat", "deprecation:warning", "error:provider", "error:tool", "execution:heartbeat"),
    *("hook-shell:failed", "hook-shell:ran", "hook-shell:refused", "hook-shell:timeout", "llm:stream_aborted"),
    *("llm:stream_block_delta", "llm:stream_block_end", "llm:stream_block_start", "log:entry", "mcp:connected"),
    *("mcp:disconnected", "mcp:failed", "mcp:ignored", "mcp:renamed", "mcp:tools_changed", "mentions:resolved"),
    *("mode:activated", "mode:activation_failed", "mode:activation_gated", "mode:changed", "mode:cleared"),
    *("mode:context_injected", "mode:tool_blocked", "mode:tool_warned", "mode:transition_completed"),
    *("mode:transition_denied", "notify:turn-complete", "orchestrator:goal_progress", "orchestrator:loop_detected"),
    *("orchestrator:rate_limit_delay", "orchestrator:steering_injected", "policy:mode_changed", "policy:remembered"),
    *("overlay:changed", "overlay:failed"),
    *("policy:unasked_change", "provider:background_status", "provider:circuit_closed", "provider:circuit_open"),
    *("provider:cloudflare_challenge", "provider:concurrency", "provider:fallback"),
    *("provider:incomplete_continuation", "provider:lean", "provider:progress", "provider:pull"),
    *("provider:response_chain_invalidated", "recipe:agent_cancelled", "recipe:agent_completed"),
    *("recipe:agent_error", "recipe:agent_spawned", "recipe:approval", "recipe:complete", "recipe:iteration_failed"),
    *("recipe:loop_complete", "recipe:loop_iteration", "recipe:start", "recipe:step", "sandbox:blocked"),
    *("sandbox:status", "session-naming:deferred", "session-naming:error", "session-naming:set"),
    *("session-naming:timeout", "session:config", "session:restore", "session:undo", "skill:loaded"),
    *("skill:unloaded", "skills:discovered", "task:agent_cancelled", "task:agent_completed", "task:agent_resumed"),
    *("task:agent_spawned", "tool:progress", "tool:selected", "tool:selecting"),
)


def known_events() -> set[str]:
    """Return the names of all events that this product emits; modules of others may emit more."""
    from amplifier_core.events import ALL_EVENTS

    return {*ALL_EVENTS, *_OF_PRODUCT}
