"""A page for which there is no room is not saved: the old file stays, nothing is left, and the result says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: Save the pages of a server to a file, one after the other, and say what came of each.
SAVES = """
import asyncio, json, pathlib, sys
from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_kit.guard.files.workspace import FileAccess, FileConfig
from amplifier_kit.guard.ssrf import Guard
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.fetch import WebFetchTool
from amplifier_module_tool_web.config import WebConfig

folder = pathlib.Path(sys.argv[1])

async def resolve(host):
    return ["127.0.0.1"]

async def main():
    coordinator = MockCoordinator()
    coordinator.register_policy("test", lambda action, details: "allow")
    coordinator.register_capability("session.working_dir", str(folder))
    written = []
    coordinator.hooks.register("artifact:write", lambda name, data: written.append(data["path"]), name="test")
    settings, domains = read_config(WebConfig, {"timeout": 60}, module="tool-web"), Domains((), ())
    client = Client(Guard((), refuse=domains.is_refused, resolve=resolve, judge=lambda address: True), {})
    access = FileAccess.of(FileConfig(), coordinator)
    tool = WebFetchTool(coordinator, settings, access, domains, lambda: client)
    told = []
    for url, name in json.load(sys.stdin):
        written.clear()
        result = await tool.execute({"url": url, "save_to_file": name})
        tree = {str(path.relative_to(folder)): path.is_file() and path.read_text()[:9] for path in folder.rglob("*")}
        told.append({"success": result.success, "error": result.error, "written": list(written), "tree": tree})
    await client.aclose()
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture
def saved(without_room: Any, tmp_path: Path, site: Any) -> Any:
    """Give `saved(name)`: what comes of saving 300,000 bytes where they do not fit, and then three that do."""
    site.text("/large", b"x" * 300_000)
    site.text("/small", b"new")
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / "kept.txt").write_text("old", encoding="utf-8")
    return lambda name: without_room(SAVES, folder, [(site.url("/large"), name), (site.url("/small"), name)])


@pytest.mark.parametrize("name", ["kept.txt", "new/page.txt"])
def test_a_page_that_does_not_fit(saved: Any, name: str) -> None:
    """Nothing of it is written, in the place of an old file or as a new one; a smaller page is saved afterwards."""
    code, (failed, done) = saved(name)
    assert (failed["success"], failed["error"]["code"], failed["written"]) == (False, code, [])
    assert failed["error"]["message"].startswith("nothing was saved: ")
    assert f"{name} cannot be written" in failed["error"]["message"]
    assert failed["tree"] == {"kept.txt": "old"}
    assert done["success"], done["error"]
    assert done["tree"][name] == "new"
