"""State what every orchestrator does; `mock_deps` are the context, providers, tools and hooks it works with."""

from __future__ import annotations

from typing import Any

import pytest


class OrchestratorBehaviorTests:
    """Inherit this in the tests of an orchestrator module; execute() gets no coordinator here."""

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, orchestrator_module: Any) -> None:
        """mount() leaves an orchestrator behind."""
        assert orchestrator_module is not None

    @pytest.mark.asyncio
    async def test_orchestrator_has_execute_method(self, orchestrator_module: Any) -> None:
        """execute() can be called."""
        assert callable(getattr(orchestrator_module, "execute", None)), "Orchestrator must have execute()"

    @pytest.mark.asyncio
    async def test_execute_returns_string(self, orchestrator_module: Any, mock_deps: Any) -> None:
        """A turn ends in text."""
        response = await _turn(orchestrator_module, "Test prompt", mock_deps)
        assert isinstance(response, str), f"execute() must return a string, got {type(response).__name__}"
        assert response, "Response must not be empty"

    @pytest.mark.asyncio
    async def test_execute_with_empty_prompt(self, orchestrator_module: Any, mock_deps: Any) -> None:
        """An empty prompt is answered, or refused on purpose: it does not cause an unexpected error."""
        try:
            response = await _turn(orchestrator_module, "", mock_deps)
        except (AttributeError, TypeError, KeyError) as error:
            pytest.fail(f"execute('') raised {error!r}")
        except Exception:
            # Raised on purpose.
            return
        assert isinstance(response, str), f"execute() must return a string, got {type(response).__name__}"

    @pytest.mark.asyncio
    async def test_orchestrator_uses_provider(self, orchestrator_module: Any, mock_deps: Any) -> None:
        """A turn asks the provider."""
        _, providers, _, _ = mock_deps
        await _turn(orchestrator_module, "Test", mock_deps)
        assert providers["default"].call_count, "Provider should be asked"

    @pytest.mark.asyncio
    async def test_orchestrator_updates_context(self, orchestrator_module: Any, mock_deps: Any) -> None:
        """A turn leaves messages in the context."""
        context, _, _, _ = mock_deps
        await _turn(orchestrator_module, "Test message", mock_deps)
        assert context.add_message.called, "Context should be updated"


async def _turn(orchestrator: Any, prompt: str, deps: Any) -> Any:
    context, providers, tools, hooks = deps
    return await orchestrator.execute(prompt=prompt, context=context, providers=providers, tools=tools, hooks=hooks)
