"""Say in plain data all that a child in a process of its own needs to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.bundles.layer import Layer
from amplifier_foundation.children.child import Surroundings, Task
from amplifier_foundation.children.origin import ChildFacts, Origin
from amplifier_foundation.children.switched import Switched
from amplifier_foundation.documents import Document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.trust.given import GivenTrust

#: Variables that programs need to run at all, and ours to find its things.
_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|SYSTEMROOT|XDG_\w+|AMPLIFIER_\w+"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|(?:https?|all|no)_proxy",
    re.IGNORECASE,
)
#: Variables that a provider reads itself, by its module.
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


def environment_for(plan: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a child's process: what it needs to run, what its plan names, what its providers read.

    Everything else, such as the keys of other programs, stays here.
    """
    named = set(_VARIABLE.findall(repr(plan)))
    providers = [entry.get("module") for entry in plan.get("providers") or [] if isinstance(entry, Mapping)]
    prefixes = tuple(prefix for module in providers for prefix in _OF_PROVIDERS.get(str(module), ()))
    return {
        name: value
        for name, value in environ.items()
        if name in named or _NEEDED.fullmatch(name) or (prefixes and name.startswith(prefixes))
    }


def write_job(
    surroundings: Surroundings, origin: Origin, prepared: Prepared, task: Task, *, is_saved: bool
) -> dict[str, Any]:
    """Return a child and its task as JSON can carry them; keys in the plan are there as they are."""
    return {
        "composed": prepared.composed.to_record(),
        "home": str(prepared.home.path),
        "project": str(prepared.project),
        "modules": {name: str(path) for name, path in prepared.modules.items()},
        "site_folders": [str(path) for path in prepared.site_folders],
        "package_paths": [str(path) for path in prepared.package_paths],
        "is_recorded": prepared.is_recorded,
        "is_made_by_app": prepared.is_made_by_app,
        "layers": [[str(one.document.path), one.document.data, *one[1:]] for one in prepared.layers],
        "facts": list(origin.facts),
        "folder": str(origin.folder),
        "root_folder": str(origin.root_folder),
        "root_id": origin.root_id,
        "metadata": origin.metadata,
        "working_dir": origin.working_dir,
        "self_delegation_depth": origin.self_delegation_depth,
        "secrets": list(origin.secrets),
        "rules": [dict(plan) for plan in origin.rules],
        "switched": asdict(origin.switched),
        "budget": origin.budget.allowance() if origin.budget is not None else {},
        "prices": origin.budget.account.prices.plain() if origin.budget is not None else {},
        "task": {
            "prompt": task.prompt,
            "hash": task.hash,
            "messages": [dict(message) for message in task.messages],
            "warnings": list(task.warnings),
        },
        "is_saved": is_saved,
        "allow_missing_modules": surroundings.allow_missing_modules,
        "trust": _trust_record(surroundings.trust),
        "is_observed": surroundings.on_child_event is not None,
        "can_ask": surroundings.approval_system is not None,
        "can_show": surroundings.display_system is not None,
    }


def read_job(job: Mapping[str, Any]) -> tuple[Origin, Prepared, Task]:
    """Return what `write_job` wrote; raises KeyError, TypeError, ValueError or RecordError for anything else."""
    prepared = Prepared(
        Composed.from_record(job["composed"], "the job of a child session"),
        Home(Path(job["home"])),
        Path(job["project"]),
        modules={name: Path(path) for name, path in job["modules"].items()},
        site_folders=tuple(map(Path, job["site_folders"])),
        package_paths=tuple(map(Path, job["package_paths"])),
        is_recorded=job["is_recorded"],
        is_made_by_app=job["is_made_by_app"],
        layers=tuple(Layer(Document(Path(path), data), *facts) for path, data, *facts in job["layers"]),
    )
    origin = Origin(
        ChildFacts(*job["facts"]),
        folder=Path(job["folder"]),
        root_folder=Path(job["root_folder"]),
        root_id=job["root_id"],
        metadata=job["metadata"],
        working_dir=job["working_dir"],
        self_delegation_depth=job["self_delegation_depth"],
        secrets=tuple(job["secrets"]),
        rules=tuple(job["rules"]),
        switched=Switched(**job["switched"]),
    )
    return _with_rules(origin, prepared, given_trust(job)), prepared, Task(**job["task"])


def given_trust(job: Mapping[str, Any]) -> GivenTrust | None:
    """Return the user's trust for the run, in the project as it was then; None when there is none."""
    trust = job["trust"]
    if not isinstance(trust, Mapping):
        return None
    return GivenTrust(Path(job["project"]), trust["files"], tuple(trust["covers"]))


def _trust_record(trust: GivenTrust | None) -> dict[str, Any] | None:
    if trust is None or trust.files is None:
        return None
    return {"files": dict(trust.files), "covers": list(trust.covers)}


def _with_rules(origin: Origin, prepared: Prepared, trust: GivenTrust | None) -> Origin:
    """Return the origin with what judges by its rules: the same files and plans as in the parent's process."""
    from amplifier_foundation.policy.session_permissions import SessionPermissions
    from amplifier_foundation.prompt.mention_resolver import MentionResolver

    composed = prepared.composed
    namespaces = {name: Path(root) for name, root in composed.namespaces.items()}
    locate = MentionResolver(namespaces, prepared.project, prepared.home).resolve
    permissions = tuple(
        SessionPermissions.of(
            replace(prepared, composed=replace(composed, plan=dict(plan))),
            origin.root_folder,
            trust=trust,
            locate=locate,
        )
        for plan in origin.rules
    )
    return replace(origin, permissions=permissions)
