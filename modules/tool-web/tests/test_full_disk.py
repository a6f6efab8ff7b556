"""A page for which there is no room is not saved: the old file stays, nothing is left, and the result says why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

#: Save the pages of a server to a file, one after the other, and say what came of each.
SAVES = """
import asyncio, json, pathlib, resource, sys
from amplifier_core.testing import MockCoordinator
from amplifier_kit.net import Guard
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.fetch import WebFetchTool
from amplifier_module_tool_web.settings import Settings

folder, limit = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

async def resolve(host):
    return ["127.0.0.1"]

async def main():
    coordinator = MockCoordinator()
    coordinator.register_policy("test", lambda action, details: "allow")
    coordinator.register_capability("session.working_dir", str(folder))
    written = []
    coordinator.hooks.register("artifact:write", lambda name, data: written.append(data["path"]), name="test")
    settings, domains = Settings.from_config({"timeout": 60}), Domains((), ())
    client = Client(Guard((), refuse=domains.is_refused, resolve=resolve, judge=lambda address: True), {})
    tool = WebFetchTool(coordinator, settings, client, domains)
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
#: Do that on a disk of 256 KiB that only this process sees.
ON_A_SMALL_DISK = """
import pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=True)
(folder / "kept.txt").write_text("old")
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[2], folder, "0"]).returncode)
"""
APART = ["unshare", "--map-root-user", "--mount"]


@pytest.fixture(params=["small disk", "size limit"])
def saved(request: pytest.FixtureRequest, tmp_path: Path, site: Any) -> Any:
    """Give `saved(*names)`: what comes of saving 300,000 bytes where they do not fit, and then three that do."""
    site.text("/large", b"x" * 300_000)
    site.text("/small", b"new")
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / "kept.txt").write_text("old", encoding="utf-8")
    command = [sys.executable, "-c", SAVES, str(folder), "100000"]
    if request.param == "small disk":
        can_mount = [*APART, "mount", "-t", "tmpfs", "none", str(folder)]
        if shutil.which("unshare") is None or subprocess.run(can_mount, capture_output=True).returncode:
            pytest.skip("no disk can be mounted here")
        command = [*APART, sys.executable, "-c", ON_A_SMALL_DISK, str(folder), SAVES]

    def save(name: str) -> tuple[str, Any]:
        calls = [(site.url("/large"), name), (site.url("/small"), name)]
        done = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return {"small disk": "disk_full", "size limit": "too_large"}[request.param], json.loads(done.stdout)

    return save


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
