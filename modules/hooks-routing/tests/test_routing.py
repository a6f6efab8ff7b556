"""Which models agents get, what the model is told, and which matrices count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_kit.engine.routing.preference import ProviderPreference
from amplifier_testing.loop.fakes import PlainTool

MATRIX = """\
name: mine
roles:
  general: {description: Everyday work, candidates: [{provider: scripted, model: big-1}]}
  fast: {description: Errands, candidates: [{provider: gone, model: x}, {provider: scripted, model: small-1}]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the user's home, which has a matrix, beside it."""
    (tmp_path / "home" / "routing").mkdir(parents=True)
    (tmp_path / "home" / "routing" / "mine.yaml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def make_session(scripted_session: Callable[..., AmplifierSession], project: Path) -> Callable[..., AmplifierSession]:
    """Give `make_session(config, agents=None, tools=(), **capabilities)`."""

    def make(
        config: dict[str, Any] | None = None,
        agents: dict[str, Any] | None = None,
        tools: tuple[str, ...] = (),
        **capabilities: Any,
    ) -> AmplifierSession:
        hooks = [{"module": "hooks-routing", "config": {"default_matrix": "mine", **(config or {})}}]
        session = scripted_session("done", hooks=hooks, mounted=[PlainTool(name) for name in tools])
        session.config["agents"] = agents or {}
        session.coordinator.register_capability("amplifier.home", str(project.parent / "home"))
        session.coordinator.register_capability("session.working_dir", str(project))
        for name, value in capabilities.items():
            session.coordinator.register_capability(name.replace("__", "."), value)
        return session

    return make


async def test_the_capability_resolves_roles(make_session: Any) -> None:
    """Roles of the matrix lead to one preference with the provider as it is mounted; unknown ones to none."""
    async with make_session() as session:
        resolver = session.coordinator.get_capability("model_role_resolver")
        assert resolver.name == "hooks-routing"
        assert resolver.known_roles == ("general", "fast")
        assert await resolver.resolve("fast") == [ProviderPreference("scripted", "small-1")]
        assert await resolver.resolve(["vision", "general"]) == [ProviderPreference("scripted", "big-1")]
        assert await resolver.resolve("vision") == []


async def test_agents_with_a_role_get_its_model(make_session: Any) -> None:
    """A role, or a list of them, becomes provider preferences when the session starts; those that are there stay."""
    own = [{"provider": "scripted", "model": "own"}]
    agents = {
        "quick": {"model_role": "fast"},
        "either": {"model_role": ["vision", "general"]},
        "fixed": {"model_role": "fast", "provider_preferences": own},
        "none": {"model_role": "vision"},
        "plain": {},
    }
    async with make_session(agents=agents) as session:
        await session.execute("go")
        live = session.coordinator.config["agents"]
    assert live["quick"]["provider_preferences"] == [{"provider": "scripted", "model": "small-1"}]
    assert live["either"]["provider_preferences"] == [{"provider": "scripted", "model": "big-1"}]
    assert live["fixed"]["provider_preferences"] == own
    assert "provider_preferences" not in live["none"]
    assert live["plain"] == {}


@pytest.mark.parametrize(("tool", "is_told"), [("delegate", True), ("look", False)])
async def test_the_model_is_told_of_roles_that_it_may_name(
    make_session: Any, requests_of: Any, tool: str, is_told: bool
) -> None:
    """The list is in the request where a tool takes a role."""
    async with make_session(tools=(tool,)) as session:
        await session.execute("go")
        assert ("- fast: Errands" in str(requests_of(session)[0])) is is_told


async def test_overrides_of_config_and_app(make_session: Any) -> None:
    """Overrides take the place of roles; what the app changes while the session runs counts at once."""
    config = {"overrides": {"fast": [{"provider": "scripted", "model": "tiny"}, "base"]}}
    live: dict[str, Any] = {"overrides": {}}
    async with make_session(config, session__routing=live) as session:
        resolver = session.coordinator.get_capability("model_role_resolver")
        assert await resolver.resolve("fast") == [ProviderPreference("scripted", "tiny")]
        live["overrides"] = {"fast": [{"provider": "scripted", "model": "live"}]}
        assert await resolver.resolve("fast") == [ProviderPreference("scripted", "live")]


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_matrices_of_a_project_need_trust(make_session: Any, project: Path, is_trusted: bool) -> None:
    """A folder in the project is searched first when the project is trusted, and not at all otherwise."""
    (project / "matrices").mkdir()
    (project / "matrices" / "mine.yaml").write_text(MATRIX.replace("small-1", "theirs"), encoding="utf-8")
    config = {"custom_routing_dirs": ["matrices"]}
    async with make_session(config, project__is_trusted=lambda: is_trusted) as session:
        [found] = await session.coordinator.get_capability("model_role_resolver").resolve("fast")
    assert found.model == ("theirs" if is_trusted else "small-1")


async def test_an_unknown_matrix_costs_no_session(make_session: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A role is only a wish: the session runs, and the log says which matrices there are."""
    async with make_session({"default_matrix": "gone"}) as session:
        assert await session.execute("go") == "done"
        assert session.coordinator.get_capability("model_role_resolver").known_roles == ()
    assert "Matrix 'gone' not found. Available: anthropic, balanced" in caplog.text
