"""What needs a trusted project, rule by rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import Namer, Owner
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.check import ModuleUse, TrustCheck, UntrustedError, ValueUse
from amplifier_foundation.trust.store import TrustStore
from amplifier_foundation.trust.values import decides_where_credentials_go

GIT = "git+https://example.invalid/tool@main"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a module in it."""
    (tmp_path / "project" / "modules" / "tool-x").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    """Return an empty store."""
    return TrustStore(Home(tmp_path / "home"))


def _use(source: object, owner: Owner, named_by: Namer, given_by_user: bool = False) -> ModuleUse:
    return ModuleUse("tools", "tool-x", str(source), owner, named_by, given_by_user, "bundle.yaml:6")


def _refused(store: TrustStore, project: Path, use: ModuleUse) -> bool:
    return bool(TrustCheck(store, project).refuse([use]))


@pytest.mark.parametrize(
    ("owner", "named_by", "given", "outside", "inside"),
    [
        ("product", "product", False, False, True),
        ("user", "user", False, False, False),
        ("fetched", "user", False, False, True),
        ("project", "user", True, False, True),
        ("project", "project", False, True, True),
        ("project", "project", True, False, True),
        ("fetched", "project", False, True, True),
        ("user", "project", False, True, True),
        ("product", "project", False, True, True),
    ],
)
def test_who_needs_trust(
    store: TrustStore, project: Path, owner: Owner, named_by: Namer, given: bool, outside: bool, inside: bool
) -> None:
    """What the project names needs trust, and so does code in the project that the user's own settings do not name."""
    own = project / "modules" / "tool-x"
    assert _refused(store, project, _use(GIT, owner, named_by, given)) is outside
    assert _refused(store, project, _use(own, owner, named_by, given)) is inside
    assert _refused(store, project, _use(own.as_uri(), owner, named_by, given)) is inside


def test_a_link_into_the_project_is_code_of_the_project(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """Code of the project that is reached through a link from outside is the project's code."""
    (tmp_path / "link").symlink_to(project / "modules" / "tool-x")
    assert _refused(store, project, _use(tmp_path / "link", "product", "product"))


def test_a_link_out_of_the_project_is_what_it_leads_to(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """A folder of the user's that the project merely links to is not inside the project."""
    (tmp_path / "mine").mkdir()
    (project / "link").symlink_to(tmp_path / "mine")
    assert not _refused(store, project, _use(project / "link", "product", "product"))


def test_the_users_home_below_the_project_is_the_users(tmp_path: Path) -> None:
    """Users who work in their home folder need not trust it for what is in ~/.amplifier."""
    home = Home(tmp_path / ".amplifier")
    fetched = home.cache / "tool-x"
    fetched.mkdir(parents=True)
    assert not _refused(TrustStore(home), tmp_path, _use(fetched, "fetched", "user"))


def test_a_refusal_names_file_line_and_reason(store: TrustStore, project: Path) -> None:
    """Everything refused is in one error with its file and line, why, and what to run."""
    refusals = TrustCheck(store, project).refuse(
        [_use("git+y", "project", "project")], [ValueUse("path", "a.b", "other.md:7")]
    )
    assert [refusal.where for refusal in refusals] == ["bundle.yaml:6", "other.md:7"]
    error = UntrustedError(refusals, project)
    assert error.code == "untrusted"
    assert error.refusals == refusals
    assert "bundle.yaml:6: tools: module 'tool-x' from git+y: the project is not trusted" in str(error)
    assert f"amplifier trust {project}" in str(error)
    assert "--trust" in str(error)


def test_trust_and_changes_decide(store: TrustStore, project: Path) -> None:
    """A trusted project is refused nothing; one that changed since is, and the reason names the file."""
    use = _use(GIT, "project", "project")
    assert TrustCheck(store, project, trust_all=True).refuse([use]) == ()
    store.trust(project)
    assert TrustCheck(store, project).refuse([use]) == ()
    (project / "bundle.yaml").write_text("x: 1\n", encoding="utf-8")
    [refusal] = TrustCheck(store, project).refuse([use])
    assert refusal.why == "the project was trusted, but bundle.yaml changed since"


def test_a_store_that_cannot_be_read_refuses(store: TrustStore, project: Path) -> None:
    """A damaged record of trust never lets anything through, and the refusal says what is wrong with it."""
    store.trust(project)
    store.home.trust.write_text("{", encoding="utf-8")
    use = _use(GIT, "project", "project")
    [refusal] = TrustCheck(store, project).refuse([use])
    assert str(store.home.trust) in refusal.why


@pytest.mark.parametrize(
    "name",
    [
        *("base_url", "baseUrl", "BASE_URL", "api_base", "endpoint", "azure_endpoint", "azure-endpoint", "host", "url"),
        *("proxy", "proxies", "http_proxy", "verify", "verify_ssl", "ssl_verify", "tls", "ca_bundle", "ca_file"),
        *("cafile", "ssl.ca_certs", "client.base_url", "api_key", "auth_token", "extra_headers.Authorization"),
    ],
)
def test_settings_that_redirect_credentials_need_trust(name: str) -> None:
    """An untrusted project cannot say where a provider sends keys and prompts, however the setting is spelled."""
    keys = [
        f"providers.provider-openai.config.{name}",
        f"agents.explorer.providers.provider-openai.config.{name}",
        f"config.providers.provider-openai.config.{name}",
        f"overrides.provider-openai.config.{name}",
    ]
    for key in keys:
        assert decides_where_credentials_go(key)


@pytest.mark.parametrize(
    ("kind", "does"),
    [
        ("endpoint", "decides where credentials and prompts are sent"),
        ("variable", "reads a variable of your environment"),
        ("path", "leads out of the project"),
        ("pin", "is a source that you name, in a state that the project chooses"),
        ("of tomorrow", "needs trust"),
    ],
)
def test_values_of_a_project_need_trust(store: TrustStore, project: Path, kind: str, does: str) -> None:
    """Each value is refused by its key and place until the project is trusted, even one of an unknown kind."""
    value = ValueUse(kind, "a.b", "settings.yaml:3")
    [refusal] = TrustCheck(store, project).refuse([], [value])
    assert (refusal.what, refusal.where) == (f"a.b {does}", "settings.yaml:3")
    assert TrustCheck(store, project, trust_all=True).refuse([], [value]) == ()
    store.trust(project)
    assert TrustCheck(store, project).refuse([], [value]) == ()


@pytest.mark.parametrize(
    "key",
    [
        "providers.provider-openai.config.default_model",
        "providers.provider-openai.config.max_tokens",
        "providers.provider-openai.config.token_limit",
        "providers.provider-openai.config.priority",
        "providers.provider-openai.config.temperature",
        "providers.provider-openai.config.cache_prompt",
        "tools.tool-web.config.url",
        "providers.provider-openai.source",
        "session.orchestrator.config.url",
    ],
)
def test_harmless_settings_need_none(key: str) -> None:
    """A project may choose models and limits, and configure its own tools."""
    assert not decides_where_credentials_go(key)


@given(st.text())
def test_no_key_is_too_odd(key: str) -> None:
    """No key raises an exception."""
    assert decides_where_credentials_go(key) in (True, False)
    assert decides_where_credentials_go(f"providers.x.config.{key}.base_url")
