"""Run one session of a mount plan in a separate process and return its answer.

    answer = await run_session_in_subprocess(plan, "Find the failing test.", parent_id, project_path)

For published code that calls this function; agents run in the process of their parent (`children`). The process gets
the environment variables that it needs and no others, and no approval system: what needs an approval is denied.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from amplifier_core.plan import check_outline, plan_modules
from amplifier_foundation.paths import Home
from amplifier_kit.guard.processes.launch import CommandResult, CommandTimeoutError, run_program
from amplifier_kit.threads import run_stoppable

#: The variables that programs need to run at all, and ours to find its files.
_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|SYSTEMROOT|XDG_\w+|AMPLIFIER_\w+"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|(?:https?|all|no)_proxy",
    re.IGNORECASE,
)
#: The prefixes of the variables that a provider reads itself, by its module.
_OF_PROVIDERS: Final[dict[str, tuple[str, ...]]] = {
    "provider-anthropic": ("ANTHROPIC_",),
    "provider-openai": ("OPENAI_",),
    "provider-azure-openai": ("AZURE_",),
    "provider-gemini": ("GEMINI_", "GOOGLE_"),
    "provider-ollama": ("OLLAMA_",),
    "provider-vllm": ("VLLM_",),
    "provider-chat-completions": ("CHAT_COMPLETIONS_",),
    "provider-github-copilot": ("GITHUB_TOKEN", "COPILOT_"),
}
_VARIABLE: Final = re.compile(r"\$\{(\w+)")
#: The longest answer, in bytes.
_ANSWER_LIMIT: Final = 64 * 1024 * 1024
#: Characters of stderr in the error message of a process that dies.
_STDERR_LIMIT: Final = 4000


async def run_session_in_subprocess(
    config: dict[str, Any],
    prompt: str,
    parent_id: str,
    project_path: str | Path,
    session_id: str | None = None,
    timeout: float = 1800,
    module_paths: Mapping[str, str] | None = None,
    bundle_package_paths: Sequence[str] | None = None,
    sys_paths: Sequence[str] | None = None,
    mention_mappings: Mapping[str, str] | None = None,
) -> str:
    """Run a prompt in a new session of the plan `config`, a child of session `parent_id`, and return its answer.

    module_paths: Folders of modules that are not installed, by module id.
    bundle_package_paths, sys_paths: Folders for the import path of the process.
    mention_mappings: Roots of namespaces for @mentions.

    Raises ValueError for invalid arguments, TimeoutError after `timeout` seconds, RuntimeError when the session fails.
    The process and everything that it has started is gone when this returns, raises or is cancelled.
    """
    from amplifier_foundation.children.results import child_id
    from amplifier_foundation.policy.modes import RUNNING, to_data

    parent = RUNNING.get(parent_id)
    session_id = session_id or child_id(parent_id, None, "self")
    job = {
        "config": config,
        "prompt": prompt,
        "parent_id": parent_id,
        "project": str(project_path),
        "session_id": session_id,
        "modules": dict(module_paths or {}),
        "package_paths": [*(bundle_package_paths or ()), *(sys_paths or ())],
        "namespaces": dict(mention_mappings or {}),
        # Rules for this run are in no file, and neither is a mode that was chosen for the first turn.
        "run": to_data(parent) if parent is not None else None,
    }
    content = _checked(job)
    environment = process_environment(config, os.environ)

    def run(stop: threading.Event) -> CommandResult:
        return run_program(
            # -P: a file in the project must not replace a module of Python.
            [sys.executable, "-P", "-m", __name__],
            timeout=timeout,
            environment=environment,
            cwd=Path(project_path),
            because="the session works in the project",
            data=content,  # on stdin, since the plan may hold keys that must not be written to a disk
            is_split=True,
            limit=_ANSWER_LIMIT,
            stop=stop,
            ends_with_descendants=True,  # the commands of the session, each in a group of its own
        )

    try:
        done = await run_stoppable(run, grace=None)
    except CommandTimeoutError as error:
        raise TimeoutError(f"the session {session_id} was not done after {timeout:g} s and was stopped") from error
    except OSError as error:
        raise RuntimeError(f"the process of session {session_id} cannot be started: {error}") from error
    try:
        result = json.loads(done.stdout)
    except ValueError as error:
        text = done.stderr.decode("utf-8", "replace").strip()[-_STDERR_LIMIT:]
        raise RuntimeError(
            f"the process of session {session_id} ended without an answer (exit code {done.returncode}): {text}"
        ) from error
    if "error" in result:
        raise RuntimeError(f"the session {session_id} failed: {result['error']}")
    return str(result["answer"])


def _checked(job: Mapping[str, Any]) -> bytes:
    """Return a job as JSON; raises ValueError when it is invalid."""
    from amplifier_foundation.children.results import is_child_id

    for name in ("session_id", "parent_id"):
        if not is_child_id(job[name]):
            raise ValueError(f"invalid {name} {job[name]!r}")
    project = Path(job["project"]).resolve()
    if (Home.find().sessions(project) / job["session_id"]).exists():
        raise ValueError(f"the session {job['session_id']} exists already")
    try:
        check_outline(job["config"])
        return json.dumps({**job, "project": str(project)}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid config: {error}") from error


def process_environment(plan: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that programs need to run, that the plan names and that its providers read.

    Everything else, such as the keys of other programs, is left out.
    """
    named = set(_VARIABLE.findall(repr(plan)))
    providers = [one.module_id for one in plan_modules(plan) if one.kind == "provider"]
    prefixes = tuple(prefix for module in providers for prefix in _OF_PROVIDERS.get(module, ()))
    return {
        name: value
        for name, value in environ.items()
        if name in named or _NEEDED.fullmatch(name) or (prefixes and name.startswith(prefixes))
    }


# In the process


async def _run_job(job: Mapping[str, Any]) -> str:
    from amplifier_foundation.children.capabilities import Spawner
    from amplifier_foundation.plan.import_path import hold
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.policy.modes import RunPermissions, from_data, mode_of_saved
    from amplifier_foundation.prompt.mention_resolver import MentionResolver
    from amplifier_foundation.sessions.metadata import load_metadata
    from amplifier_foundation.sessions.origin import ChildFacts, Origin
    from amplifier_foundation.sessions.permissions import SessionPermissions
    from amplifier_foundation.sessions.runtime import SessionRuntime

    home, project, namespaces = Home.find(), Path(job["project"]), dict(job["namespaces"])
    packages = tuple(map(Path, job["package_paths"]))
    prepared = Prepared.from_plan(job["config"], home.path, project)
    prepared = replace(
        prepared,
        composed=replace(prepared.composed, namespaces=namespaces),
        modules={name: Path(path) for name, path in job["modules"].items()},
        package_paths=packages,
        is_made_by_app=False,  # the plan may have parts of a project that is not trusted
    )
    hold(packages)
    place, parent_id = home.sessions(project), job["parent_id"]
    parent = load_metadata(place / parent_id).data
    root_id = parent.get("trace_id") or parent_id
    # The rules that the user set for the tree of sessions are in the folder of its root.
    locate = MentionResolver({name: Path(root) for name, root in namespaces.items()}, project, home).resolve
    run = from_data(job["run"]) if job["run"] is not None else RunPermissions(mode_of_saved(parent))
    permissions = SessionPermissions.of(prepared, place / root_id, trust=None, locate=locate, run=run)
    metadata = {"parent_id": parent_id, "trace_id": root_id, "agent_name": "self", "depth": 1}
    origin = Origin(
        ChildFacts(job["session_id"], parent_id, "self", 1),
        folder=place / job["session_id"],
        root_folder=place / root_id,
        root_id=root_id,
        metadata=metadata,
        rules=(job["config"],),
        permissions=(permissions,),
    )
    async with SessionRuntime(prepared, session_id=job["session_id"], origin=origin, spawner=Spawner()) as runtime:
        return str(await runtime.execute(job["prompt"]))


def _main() -> int:
    job = json.load(sys.stdin)
    # Modules may print: stdout is for the answer alone.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        try:
            result = {"answer": asyncio.run(_run_job(job))}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        json.dump(result, answers)
    return 0 if "answer" in result else 1


if __name__ == "__main__":
    sys.exit(_main())
