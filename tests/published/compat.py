"""Run and check everything in a folder of published checkouts: modules, bundle files and agents.

    python -m published.compat FOLDER [--write] [--offline] [--page FILE]

run in the folder above this one; `make compat PUBLISHED=FOLDER` does it, and rewrites the table of
docs/contracts/compatibility.md. Each repository is a folder in FOLDER, named like the repository.

Code of modules runs, each in a program of its own with its own home: look at what you have checked out before. FOLDER
is copied first and never changed. Includes by address lead to the repository of that name in FOLDER, if it is there.
With --offline nothing is fetched or installed. Exits 1 when something fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from amplifier_foundation.bundles.agent_file import load_agent_file
from amplifier_foundation.bundles.loader import BundleLoader
from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.bundles.shipped import shipped_bundles
from amplifier_foundation.documents import read_document
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetcher import Fetcher

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from document import circumstances, table, write_section  # noqa: E402

PAGE = ROOT / "docs" / "contracts" / "compatibility.md"
SECTION = "published"
#: Folders that hold no published parts.
SKIPPED = {".git", ".venv", "node_modules", "tests", "test", "__pycache__", ".pytest_cache", "build", "dist"}
#: So that providers mount; nothing is sent, since the scripted model answers.
KEYS = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    *("GITHUB_TOKEN", "BRAVE_API_KEY", "TAVILY_API_KEY"),
)
LONGEST_REASON = 160
SECONDS = 300


class Result(NamedTuple):
    """One part, and why it does not work; empty when it does."""

    kind: str
    name: str
    problem: str


class Checkouts:
    """A copy of the folder, in the cache of a temporary home: what is in it counts as fetched."""

    def __init__(self, source: Path, place: Path) -> None:
        self.source = source
        self.home = Home(place / "home")
        self.project = place / "project"
        self.project.mkdir(parents=True)
        self.folder = self.home.cache
        shutil.copytree(source, self.folder, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
        self._place = place

    def files(self, *suffixes: str) -> Iterator[Path]:
        yield from sorted(path for path in self.folder.rglob("*") if path.suffix in suffixes and path.is_file())

    def shown(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def address(self, path: Path) -> str:
        """Return the address by which others include a file: its repository, and its place there."""
        repository, *inside = path.relative_to(self.folder).parts
        return f"file://{self.folder / repository}#subdirectory={'/'.join(inside)}" if inside else str(path)

    def reason(self, text: str) -> str:
        """Return a problem in one line without folders of this machine."""
        for folder in (self.folder, self.project, self.home.path, self._place, self.source):
            text = text.replace(f"{folder}/", "").replace(str(folder), ".")
        text = " ".join(text.split()).removeprefix("amplifier: ")
        return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…"

    def overrides(self) -> dict[str, str]:
        """Return where the addresses in all files lead: to the repository of that name, if it is here."""
        found = {}
        for path in self.files(".md", ".yaml", ".yml"):
            for address in re.findall(
                r"git\+\w+://[^\s\"'#<>)\]}]+", path.read_text(encoding="utf-8", errors="replace")
            ):
                name = re.sub(r"(\.git)?(@[^/@]*)?$", "", address).rpartition("/")[2]
                if (self.folder / name).is_dir():
                    found[address] = str(self.folder / name)
        return found


# -- bundles and agents --


def front_matter(path: Path) -> dict[str, object]:
    """Return the mapping of a file, empty when it has none or cannot be read."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if path.suffix == ".md":
        match = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
        text = match[1] if match else ""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return {"bundle": {}} if re.search(r"^bundle:", text, re.MULTILINE) else {}
    return data if isinstance(data, dict) else {}


async def check_files(checkouts: Checkouts) -> list[Result]:
    """Load every bundle file with its includes, and every agent."""
    results = []
    overrides = checkouts.overrides()
    for path in checkouts.files(".md", ".yaml", ".yml"):
        data = front_matter(path)
        if isinstance(data.get("bundle"), dict):
            registry = BundleRegistry(checkouts.home, checkouts.project, None, shipped_bundles())
            fetcher = Fetcher(checkouts.home, offline=True)
            loader = BundleLoader(fetcher, registry, checkouts.home, checkouts.project, overrides=overrides)
            results.append(
                Result("bundle", checkouts.shown(path), await _problem(checkouts, loader.load(checkouts.address(path))))
            )
        elif path.parent.name == "agents" and path.suffix == ".md" and ({"meta", "name"} & data.keys()):
            results.append(Result("agent", checkouts.shown(path), await _problem(checkouts, _agent(path))))
    return results


async def _agent(path: Path) -> None:
    read_document(path)
    load_agent_file(path, "fetched", [])


async def _problem(checkouts: Checkouts, work: object) -> str:
    try:
        await work  # type: ignore[misc]
    except (FoundationError, OSError) as error:
        return checkouts.reason(str(error))
    return ""


# -- modules --


def modules(checkouts: Checkouts) -> Iterator[tuple[str, Path]]:
    """Yield id and folder of every module."""
    for path in sorted(checkouts.folder.rglob("pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
        for name in project.get("entry-points", {}).get("amplifier.modules", {}):
            yield name, path.parent


def plan_with(name: str, folder: Path) -> dict[str, object]:
    """Return a bundle that runs with one module of the checkouts, and a scripted model."""
    entry = {"module": name, "source": str(folder)}
    kind = name.partition("-")[0]
    session: dict[str, object] = {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}}
    plan: dict[str, object] = {"bundle": {"name": "compat"}, "session": session}
    providers: list[object] = [{"module": "provider-mock", "config": {"priority": 0, "responses": ["It runs."]}}]
    if kind in ("loop", "orchestrator"):
        session["orchestrator"] = entry
    elif kind == "context":
        session["context"] = entry
    elif kind == "provider":
        providers = [*providers, {**entry, "config": {"priority": 500}}]
    else:
        plan["tools" if kind == "tool" else "hooks"] = [entry]
    return {**plan, "providers": providers}


def check_module(checkouts: Checkouts, name: str, folder: Path, *, offline: bool) -> Result:
    """Run a session with the module; it works when the session answers and every module was loaded."""
    bundle = checkouts.project / "compat.yaml"
    bundle.write_text(yaml.safe_dump(plan_with(name, folder)), encoding="utf-8")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("AMPLIFIER", "PYTEST"))}
    environ |= {"HOME": str(checkouts.home.path.parent), "AMPLIFIER_HOME": str(checkouts.home.path)}
    environ |= dict.fromkeys(KEYS, "not-a-key")
    options = ["--json", "--trust", *(["--offline"] if offline else [])]
    command = [sys.executable, "-m", "amplifier_app_cli", "run", *options, "-B", "./compat.yaml", "hello"]
    try:
        done = subprocess.run(
            command, cwd=checkouts.project, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Result("module", name, f"not done after {SECONDS} s")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and answers and answers[-1].get("status") == "success":
        return Result("module", name, "")
    message = done.stderr[max(done.stderr.find("amplifier: "), 0) :]
    return Result("module", name, checkouts.reason(message or f"exit code {done.returncode}"))


# -- the report --


def check(source: Path, *, offline: bool) -> list[Result]:
    """Return what works of everything in a folder; the folder is not changed."""
    with tempfile.TemporaryDirectory() as place:
        checkouts = Checkouts(source, Path(place).resolve())
        results = [check_module(checkouts, name, folder, offline=offline) for name, folder in modules(checkouts)]
        return [*results, *asyncio.run(check_files(checkouts))]


def counts(results: list[Result]) -> str:
    """Return how many of each kind work, in words."""
    total, fine = Counter(one.kind for one in results), Counter(one.kind for one in results if not one.problem)
    verbs = {"module": "modules run", "bundle": "bundle files load", "agent": "agents are valid"}
    return ", ".join(f"{fine[kind]} of {total[kind]} {verb}" for kind, verb in verbs.items())


def report(results: list[Result], what: str) -> str:
    rows = [[one.kind, f"`{one.name}`", "no" if one.problem else "yes", one.problem] for one in results]
    return f"{circumstances()}; {what}: {counts(results)}.\n\n{table(['Kind', 'Name', 'Works', 'Why not'], rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="rewrite the table of docs/contracts/compatibility.md")
    parser.add_argument("--offline", action="store_true", help="fetch and install nothing")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that --write rewrites")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder: give one that holds the checkouts")
    results = check(options.folder.resolve(), offline=options.offline)
    what = f"the checkouts in `{options.folder.resolve().name}`"
    print(report(results, what))
    if options.write:
        write_section(options.page, "# Compatibility", SECTION, report(results, what))
    sys.exit(any(one.problem for one in results))


if __name__ == "__main__":
    main()
