"""A user's home, Amplifier's home in it, a project elsewhere, and a bundle's namespace elsewhere again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.prompt.access import PromptAccess
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.trust.store import TrustStore

Write = Callable[[str, str], Path]


@dataclass(frozen=True)
class Places:
    """Where things are in a test; `outside` is inside none of the others."""

    user_home: Path
    home: Home
    project: Path
    bundle: Path
    outside: Path
    resolver: MentionResolver
    access: PromptAccess

    def access_of(self, resolver: MentionResolver | None = None, **given: Any) -> PromptAccess:
        """Return the access of a session in the project of a resolver, with the rules that hold there."""
        resolver = resolver or self.resolver
        return access_of(resolver, **given)


def access_of(
    resolver: MentionResolver,
    rules: Callable[[], Any] | None = None,
    is_trusted: Callable[[], bool] | None = None,
    texts: dict[str, str] | None = None,
) -> PromptAccess:
    """Return the access for a resolver; the rules are read at each decision."""
    home, project = resolver.home, resolver.project
    return PromptAccess(
        resolver,
        rules or (lambda: [Permissions.load(home, project, bundles=resolver.namespaces.values())]),
        is_trusted or (lambda: TrustStore(home).state(project).trusted),
        texts,
    )


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Places with spaces and unicode in their names."""
    user_home, project = tmp_path / "people" / "zoë", tmp_path / "my wörk"
    bundle, outside = tmp_path / "bundle", tmp_path / "outside"
    home = Home(user_home / ".amplifier")
    for folder in (home.path, project, bundle, outside):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user_home))
    resolver = MentionResolver({"ns": bundle}, project, home)
    return Places(user_home, home, project, bundle, outside, resolver, access_of(resolver))


@pytest.fixture
def write(places: Places) -> Write:
    """Write a file by a path relative to the project, and make its folders."""

    def write_text(path: str, text: str) -> Path:
        file = places.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        return file

    return write_text
