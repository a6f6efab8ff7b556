"""What the tests of this module share: an orchestrator and a provider that are as small as can be."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LOOP = '''
"""Ask the context for a request and the provider for an answer, once."""

__amplifier_module_type__ = "orchestrator"


class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        provider = next(iter(providers.values()))
        await context.add_message({"role": "user", "content": prompt})
        answer = await provider.complete(await context.get_messages_for_request(provider=provider))
        await context.add_message({"role": "assistant", "content": answer})
        return answer


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
'''

PROVIDER = '''
"""Answer with the number of messages, and remember them."""

from amplifier_core import ProviderInfo

__amplifier_module_type__ = "provider"


class Counting:
    name = "counting"

    def __init__(self):
        self.requests = []

    def get_info(self):
        return ProviderInfo(id="counting", display_name="Counting")

    async def list_models(self):
        return []

    async def complete(self, request, **kwargs):
        self.requests.append(request)
        return f"{len(request)} messages"

    def parse_tool_calls(self, response):
        return []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Counting(), name="counting")
'''

PACKAGES = {"amplifier_module_loop_once": LOOP, "amplifier_module_provider_counting": PROVIDER}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every test have a home of its own, and work in a folder of its own."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path / "home"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A plan with the smallest orchestrator and provider; the test says which context."""
    for name, source in PACKAGES.items():
        (tmp_path / "modules" / name).mkdir(parents=True)
        (tmp_path / "modules" / name / "__init__.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    importlib.invalidate_caches()
    yield {"session": {"orchestrator": {"module": "loop-once"}}, "providers": [{"module": "provider-counting"}]}
    for name in PACKAGES:
        sys.modules.pop(name, None)
