"""What needs a trusted project, rule by rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.layer import Layer, Namer, Owner
from amplifier_foundation.documents import parse_document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import ValueUse
from amplifier_foundation.trust.projects import NamedModule, TrustCheck, TrustStore, UntrustedError
from amplifier_foundation.trust.rules import decides_where_credentials_go

GIT = "git+https://example.invalid/tool@main"
BUNDLE = b"""bundle:
  name: x
tools:
- module: tool-a
- module: tool-x
  source: git+y
session:
  context:
    module: c
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a module in it."""
    (tmp_path / "project" / "modules" / "tool-x").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    """Return an empty store."""
    return TrustStore(Home(tmp_path / "home"))


def _layer(project: Path, owner: Owner, named_by: Namer, given_by_user: bool = False) -> Layer:
    return Layer(parse_document(project / "bundle.yaml", BUNDLE), owner, named_by, "x", "u", given_by_user)


def _refused(store: TrustStore, project: Path, entry: NamedModule) -> bool:
    return bool(TrustCheck(store, project).refuse_modules([entry]))


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
    layer = _layer(project, owner, named_by, given)
    own = project / "modules" / "tool-x"
    assert _refused(store, project, NamedModule("tools", "tool-x", GIT, None, layer)) is outside
    assert _refused(store, project, NamedModule("tools", "tool-x", str(own), own, layer)) is inside
    assert _refused(store, project, NamedModule("tools", "tool-x", str(own), None, layer)) is inside
    assert _refused(store, project, NamedModule("tools", "tool-x", own.as_uri(), None, layer)) is inside


def test_installed_modules_need_none(store: TrustStore, project: Path) -> None:
    """A module without a source is one that was installed with the program, whoever names it."""
    layer = _layer(project, "project", "project")
    assert not _refused(store, project, NamedModule("tools", "tool-bash", None, None, layer))


def test_a_module_found_in_the_project_needs_trust(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """Code below the project that is found by its id, or through a link from outside, is the project's code."""
    own = project / "modules" / "tool-x"
    (tmp_path / "link").symlink_to(own)
    for path in (own, tmp_path / "link"):
        for layer in (None, _layer(project, "product", "product")):
            assert _refused(store, project, NamedModule("tools", "tool-x", None, path, layer))


def test_a_link_out_of_the_project_is_what_it_leads_to(store: TrustStore, project: Path, tmp_path: Path) -> None:
    """A folder of the user's that the project merely links to is not inside the project."""
    (tmp_path / "mine").mkdir()
    (project / "link").symlink_to(tmp_path / "mine")
    entry = NamedModule("tools", "tool-x", None, project / "link", _layer(project, "product", "product"))
    assert not _refused(store, project, entry)


def test_a_source_that_nobody_is_known_to_name_needs_trust(store: TrustStore, project: Path) -> None:
    """When it is not known who named something, the one who is trusted least is assumed."""
    assert _refused(store, project, NamedModule("tools", "tool-x", GIT, None, None))


def test_the_users_home_below_the_project_is_the_users(tmp_path: Path) -> None:
    """Someone who works in their home folder need not trust it for what lies in ~/.amplifier."""
    home = Home(tmp_path / ".amplifier")
    fetched = home.cache / "tool-x"
    fetched.mkdir(parents=True)
    entry = NamedModule("tools", "tool-x", GIT, fetched, _layer(tmp_path, "fetched", "user"))
    assert not _refused(TrustStore(home), tmp_path, entry)


def test_a_refusal_names_file_line_and_reason(store: TrustStore, project: Path) -> None:
    """Everything refused is in one error with its file and line, why, and what to run."""
    layer = _layer(project, "project", "project")
    entries = [
        NamedModule("tools", "tool-x", "git+y", None, layer),
        NamedModule("session", "c", GIT, None, layer),
        NamedModule("hooks", "hook-z", GIT, None, layer, where="other.md:7"),
    ]
    refusals = TrustCheck(store, project).refuse_modules(entries)
    bundle = project / "bundle.yaml"
    assert [refusal.where for refusal in refusals] == [f"{bundle}:6", f"{bundle}:8", "other.md:7"]
    error = UntrustedError(refusals, project)
    assert error.code == "untrusted"
    assert error.refusals == tuple(refusals)
    assert f"{bundle}:6: tools: module 'tool-x' from git+y: the project is not trusted" in str(error)
    assert f"amplifier trust {project}" in str(error)
    assert "--trust" in str(error)


def test_trust_and_changes_decide(store: TrustStore, project: Path) -> None:
    """A trusted project is refused nothing; one that changed since is, and the reason names the file."""
    entry = NamedModule("tools", "tool-x", GIT, None, _layer(project, "project", "project"))
    assert TrustCheck(store, project, trust_all=True).refuse_modules([entry]) == []
    store.trust(project)
    assert TrustCheck(store, project).refuse_modules([entry]) == []
    (project / "bundle.yaml").write_text("x: 1\n", encoding="utf-8")
    [refusal] = TrustCheck(store, project).refuse_modules([entry])
    assert refusal.why == "the project was trusted, but bundle.yaml changed since"


def test_a_store_that_cannot_be_read_refuses(store: TrustStore, project: Path) -> None:
    """A damaged record of trust never lets anything through, and the refusal says what is wrong with it."""
    store.trust(project)
    store.home.trust.write_text("{", encoding="utf-8")
    entry = NamedModule("tools", "tool-x", GIT, None, _layer(project, "project", "project"))
    [refusal] = TrustCheck(store, project).refuse_modules([entry])
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
    """Each value is refused by its key and place until the project is trusted, also one of a kind nobody knows."""
    value = ValueUse(kind, "a.b", "settings.yaml:3")
    [refusal] = TrustCheck(store, project).refuse_values([value])
    assert (refusal.what, refusal.where) == (f"a.b {does}", "settings.yaml:3")
    assert TrustCheck(store, project, trust_all=True).refuse_values([value]) == []
    store.trust(project)
    assert TrustCheck(store, project).refuse_values([value]) == []


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
    """Whatever a key looks like, there is an answer."""
    assert decides_where_credentials_go(key) in (True, False)
    assert decides_where_credentials_go(f"providers.x.config.{key}.base_url")
