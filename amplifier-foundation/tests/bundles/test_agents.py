"""Agents: the files that define them, and the roster of a bundle."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_foundation.bundles.agents import (
    AgentError,
    discover_agents,
    load_agent_file,
    resolve_agents,
)
from amplifier_foundation.bundles.bundle import Layer, Namer, Owner
from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE, owner_of
from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home

EXPLORER = """---
meta:
  name: explorer
  description: Finds things out.
  model_role: fast
  colour: blue
tools:
  - module: tool-search
    source: ./modules/tool-search
provider_preferences:
  - {provider: anthropic, model: "claude-*", config: {effort: low}}
agents: [reviewer]
---

You explore.
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a bundle with one module."""
    (tmp_path / "bundle" / "modules" / "tool-search").mkdir(parents=True)
    return tmp_path / "bundle"


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def load(path: Path, owner: Owner = "user", **options: Any) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    return load_agent_file(path, owner, warnings, **options), warnings


def test_a_file_becomes_a_definition(root: Path) -> None:
    """Everything is at the top, the body instructs, the author's own keys stay in meta, sources are absolute."""
    definition, warnings = load(put(root / "agents" / "explorer.md", EXPLORER), root=root)
    assert definition == {
        "name": "explorer",
        "description": "Finds things out.",
        "model_role": "fast",
        "meta": {"colour": "blue"},
        "tools": [{"module": "tool-search", "source": str(root / "modules" / "tool-search")}],
        "provider_preferences": [{"provider": "anthropic", "model": "claude-*", "config": {"effort": "low"}}],
        "agents": ["reviewer"],
        "instruction": "You explore.",
    }
    assert warnings == []


def test_flat_keys_are_fine_and_win(tmp_path: Path) -> None:
    """Name, description and role may stand at the top."""
    path = put(tmp_path / "a.md", "---\nname: a\ndescription: A.\nmodel_role: fast\nmeta: {model_role: slow}\n---\nDo.")
    assert load(path)[0] == {"name": "a", "description": "A.", "model_role": "fast", "instruction": "Do."}


def test_a_file_without_front_matter_only_instructs(tmp_path: Path) -> None:
    """A body is enough."""
    assert load(put(tmp_path / "a.md", "Do it."))[0] == {"instruction": "Do it."}


@pytest.mark.parametrize("shape", ["bom", "crlf", "both"])
def test_byte_order_marks_and_crlf_change_no_line(tmp_path: Path, shape: str) -> None:
    """A file saved elsewhere is read alike, and its faults are reported on the same line."""
    text = "---\nmeta:\n  name: a\n\ntoools: []\n---\nDo."
    content = text.replace("\n", "\r\n").encode() if shape != "bom" else text.encode()
    path = put(tmp_path / "zoë a.md", b"\xef\xbb\xbf" * (shape != "crlf") + content)
    with pytest.raises(AgentError, match=r"zoë a\.md:5: unknown key 'toools': did you mean 'tools'\?"):
        load(path)
    definition, warnings = load(path, "fetched")
    assert (definition["name"], definition["instruction"]) == ("a", "Do.")
    assert len(warnings) == 1
    assert ":5: unknown key 'toools'" in warnings[0]


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        ("meta: explorer", ":2: 'meta' must be a mapping, got text"),
        ("meta:\n  descripton: x", ":3: unknown key 'descripton' in meta: did you mean 'description'?"),
        ("meta:\n  description: [x]", ":3: 'meta.description' must be text, got a list"),
        ("model_role: {fast: 1}", ":2: 'model_role' must be a role or a list of roles"),
        ("model_role: [fast, 1]", ":2: 'model_role[1]' must be text"),
        ("agents: some", ":2: 'agents' must be 'all', 'none' or a list of names, got text"),
        ("agents: [1]", ":2: 'agents' must be"),
        ("agents: 7", ":2: 'agents' must be"),
        ("tools: tool-x", ":2: 'tools' must be a list of modules, got text"),
        ("tools:\n  - module: x\n    confg: {}", ":4: unknown key 'confg' in tools[0]: did you mean 'config'?"),
        ("session:\n  orchestrator: [x]", ":3: 'session.orchestrator' must be"),
        ("provider_preferences: x", ":2: 'provider_preferences' must be a list, got text"),
        ("provider_preferences:\n  - model: x", ":3: 'provider_preferences[0]' must be a mapping with a 'provider'"),
        (
            "provider_preferences:\n  - provider: x\n    modell: y",
            ":4: unknown key 'modell' in provider_preferences[0]: did you mean 'model'?",
        ),
        ("provider_preferences: [{provider: x, model: 1}]", ":2: 'provider_preferences[0].model' must be text"),
        ("provider_preferences: [{provider: x, config: 1}]", ":2: 'provider_preferences[0].config' must be a mapping"),
        ("instruction: also here", ":2: 'instruction' is given twice"),
        ("tools:\n  - {module: x, source: ./none}", ":3: the source './none' of 'x' was not found"),
        ("meta: [", ":3: malformed YAML"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, front: str, fault: str) -> None:
    """Whatever is wrong in an authored file is an error that says where, what, and what was meant."""
    path = put(tmp_path / "a.md", f"---\n{front}\n---\nDo.")
    with pytest.raises(FoundationError) as raised:
        load(path)
    assert f"{path}{fault}" in str(raised.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """A file is corrected in one go."""
    path = put(tmp_path / "a.md", "---\ntoolz: 1\nmeta: 2\nhooks: 3\nagents: 4\n---\nDo.")
    with pytest.raises(AgentError) as raised:
        load(path)
    assert [line.split(":")[1] for line in str(raised.value).splitlines()] == ["2", "4", "3", "5"]
    assert raised.value.code == "agent_invalid"


def test_in_fetched_files_unknown_keys_are_warnings_and_wrong_values_are_not(tmp_path: Path) -> None:
    """What others wrote for another version still loads, visibly; what cannot be used does not."""
    unknown = "---\nfuture: 1\nprovider_preferences: [{provider: x, weight: 2}]\n---\nDo."
    warnings = load(put(tmp_path / "a.md", unknown), "fetched")[1]
    assert ["unknown key 'future'" in warnings[0], "unknown key 'weight'" in warnings[1]] == [True, True]
    with pytest.raises(AgentError, match="'tools' must be a list"):
        load(put(tmp_path / "a.md", "---\ntools: 1\n---\nDo."), "fetched")


def test_a_roster_in_an_agent_has_no_effect_and_says_so(tmp_path: Path) -> None:
    """An agent says whom it may call, it has no agents of its own."""
    definition, warnings = load(put(tmp_path / "a.md", "---\nagents: {b: {}}\n---\nDo."))
    assert "agents" not in definition
    assert f"{tmp_path}/a.md:2: 'agents' of an agent" in warnings[0]


def test_the_agents_that_ship_are_sound() -> None:
    """Every shipped file loads without a fault or a warning."""
    found = discover_agents(SHIPPED_NAMESPACE[1] / "agents")
    assert found
    for path in found.values():
        definition, warnings = load(path, "product")
        assert definition["description"]
        assert warnings == []


def test_agents_are_discovered_by_file_name(tmp_path: Path) -> None:
    """Markdown files count, sorted; folders, other files and missing folders do not; a broken folder is told of."""
    for name in ("b.md", "a.md", "c.txt"):
        put(tmp_path / "agents" / name, "Do.")
    (tmp_path / "agents" / "d.md").mkdir()
    assert discover_agents(tmp_path / "agents") == {name: tmp_path / "agents" / f"{name}.md" for name in ("a", "b")}
    assert discover_agents(tmp_path / "none") == {}
    with pytest.raises(AgentError, match="cannot look for agents"):
        discover_agents(tmp_path / "agents" / "a.md")


def test_owners_go_by_place(tmp_path: Path, home: Home) -> None:
    """Only what is in the cache was fetched; everything else somebody here wrote."""
    project = tmp_path / "project"
    places = (home.cache / "x", project / "x", home.path / "x", tmp_path / "x", SHIPPED_NAMESPACE[1] / "x")
    owners = [owner_of(path, project, home) for path in places]
    assert owners == ["fetched", "project", "user", "user", "product"]


class Roster:
    """Resolves rosters of one bundle in one project."""

    def __init__(self, root: Path, project: Path, home: Home) -> None:
        self.root, self.project, self.home = root, project, home
        self.warnings: list[str] = []

    def resolve(self, agents: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
        namespaces = {"ns": self.root}
        return resolve_agents(agents, namespaces, "ns", self.project, self.home, warnings=self.warnings, **options)


@pytest.fixture
def roster(root: Path, tmp_path: Path, home: Home) -> Roster:
    return Roster(root, tmp_path / "project", home)


def agent(text: str) -> str:
    return f"---\ndescription: {text}\nmodel_role: fast\n---\n{text} instruction"


def test_the_roster_is_read_from_files(roster: Roster) -> None:
    """Included names and empty definitions are files of their namespace; callers' names are kept."""
    put(roster.root / "agents" / "a.md", agent("A"))
    put(roster.root / "agents" / "sub" / "b.md", agent("B"))
    agents: dict[str, Any] = {"include": ["ns:a", "a"], "ns:sub/b": {}, "ns:agents/a": {"name": "ns:agents/a"}}
    found = roster.resolve(agents)
    assert {name: definition["description"] for name, definition in found.items()} == {
        "ns:a": "A",
        "a": "A",
        "ns:sub/b": "B",
        "ns:agents/a": "A",
    }
    assert roster.warnings == []
    assert agents == {"include": ["ns:a", "a"], "ns:sub/b": {}, "ns:agents/a": {"name": "ns:agents/a"}}


def test_a_file_fills_only_the_gaps_of_an_inline_definition(roster: Roster) -> None:
    """What the bundle says stays, what it leaves out comes from the file, and no file is needed for a whole one."""
    put(roster.root / "agents" / "a.md", agent("A"))
    found = roster.resolve(
        {
            "a": {"description": "Mine.", "tools": [], "instruction": None},
            "other": {"meta": {"description": "Inline."}, "instruction": "Do."},
            "elsewhere:c": {"description": "Inline.", "instruction": "Do."},
        }
    )
    assert found["a"] == {"description": "Mine.", "tools": [], "model_role": "fast", "instruction": "A instruction"}
    assert found["other"] == found["elsewhere:c"] == {"description": "Inline.", "instruction": "Do."}
    assert roster.warnings == []


def layer(namer: Namer, content: bytes, path: Path) -> Layer:
    return Layer(parse_document(path, content), namer, namer, "ns", "uri")


def test_names_without_a_namespace_are_looked_for_nearby(roster: Roster, tmp_path: Path) -> None:
    """First in the namespace that declared them, then, if the project did, in the project, then in the home."""
    layers = [layer("project", b"agents: {include: [x]}", tmp_path / "b.yaml")]

    def found(**options: Any) -> str:
        return str(roster.resolve({"x": {}}, layers=layers, **options)["x"]["description"])

    put(roster.home.path / "agents" / "x.md", agent("user"))
    assert found() == "user"
    put(roster.project / ".amplifier" / "agents" / "x.md", agent("project"))
    assert found() == "project"
    put(roster.root / "agents" / "x.md", agent("bundle"))
    assert found() == "bundle"
    assert found(agent_namespaces={"x": "unknown"}) == "project"


@pytest.mark.parametrize("namer", ["user", "product"])
def test_a_project_cannot_stand_in_for_an_agent_that_others_name(roster: Roster, tmp_path: Path, namer: Namer) -> None:
    """The modules of an agent are there on the word of who names it, so its file is not one of the project's."""
    layers = [layer(namer, b"agents: {include: [x]}", tmp_path / "b.yaml")]
    put(roster.project / ".amplifier" / "agents" / "x.md", agent("project"))
    with pytest.raises(AgentError, match="no agent 'x'"):
        roster.resolve({"x": {}}, layers=layers)
    put(roster.home.path / "agents" / "x.md", agent("user"))
    assert roster.resolve({"x": {}}, layers=layers)["x"]["description"] == "user"


def test_missing_agents_are_errors_with_the_line_that_names_them(roster: Roster, tmp_path: Path) -> None:
    """The error has file and line, and where was looked; all of them are told at once."""
    text = b"bundle: {name: ns}\nagents:\n  include:\n    - ns:none\n    - nss:a\n  bad: 7\n"
    document = parse_document(tmp_path / "bundle.yaml", text)
    layers = [Layer(document, "user", "user", "ns", "uri")]
    with pytest.raises(AgentError) as raised:
        roster.resolve(document.data["agents"], layers=layers)
    assert str(raised.value).splitlines() == [
        f"{document.path}:4: there is no agent 'ns:none': looked for {roster.root}/agents/none.md",
        f"{document.path}:5: the agent 'nss:a' is in no namespace that is known: did you mean 'ns'?",
        f"{document.path}:6: the agent 'bad' must be a mapping, got int",
    ]
    missing: dict[str, Any] = {"ns:none": {"name": "none"}, "nss:a": {}}  # a name alone defines nothing
    assert roster.resolve(missing, layers=layers, allow_missing=True) == {}
    assert len(roster.warnings) == 2


def test_inline_faults_name_the_agent(roster: Roster, tmp_path: Path) -> None:
    """Values that only agents have are checked in bundles too; unknown keys of fetched ones are warnings."""
    document = parse_document(
        tmp_path / "b.yaml", b"agents:\n  a:\n    provider_preferences: [{provider: x, modell: 1}]\n"
    )
    with pytest.raises(AgentError, match=r"b\.yaml:2: agent 'a': unknown key 'modell'"):
        roster.resolve(document.data["agents"], layers=[Layer(document, "project", "project", "ns", "uri")])
    roster.resolve(document.data["agents"], layers=[Layer(document, "fetched", "user", "ns", "uri")])
    assert "unknown key 'modell'" in roster.warnings[0]


def test_an_agent_without_description_is_warned_of(roster: Roster) -> None:
    """Nobody would ever call it."""
    put(roster.root / "agents" / "a.md", "Do.")
    roster.resolve({"a": {}})
    assert roster.warnings == [
        f"{roster.root}/agents/a.md: the agent has no description: other agents cannot know when to call it"
    ]


def test_a_missing_module_source_is_a_warning_only_when_allowed(roster: Roster) -> None:
    """The escape for missing modules reaches into agents."""
    put(roster.root / "agents" / "a.md", "---\ndescription: A\ntools: [{module: x, source: ./none}]\n---\nDo.")
    with pytest.raises(AgentError, match=r"agents/a\.md:3: the source './none'"):
        roster.resolve({"a": {}})
    assert roster.resolve({"a": {}}, allow_missing=True)["a"]["tools"][0]["source"].endswith("none")
    assert "the source './none'" in roster.warnings[0]


def test_links_of_projects_and_fetched_bundles_lead_nowhere_else(roster: Roster, tmp_path: Path) -> None:
    """A user links their own agents as they like; others cannot make any file an agent's instruction."""
    secret = put(tmp_path / "secret.md", agent("secret"))
    for folder in (roster.root / "agents", roster.project / ".amplifier" / "agents"):
        folder.mkdir(parents=True)
        (folder / f"{'mine' if folder.parent == roster.root else 'theirs'}.md").symlink_to(secret)
    assert roster.resolve({"ns:mine": {}})["ns:mine"]["description"] == "secret"
    layers = [layer("project", b"agents: {include: [theirs]}", tmp_path / "b.yaml")]
    with pytest.raises(AgentError, match="is a link out of"):
        roster.resolve({"theirs": {}}, layers=layers)


def test_names_that_yaml_takes_for_something_else_are_refused(roster: Roster, tmp_path: Path) -> None:
    """`on` is a truth value and 7 a number, in a list as in a mapping; the error says to quote them."""
    layers = [layer("user", b"agents:\n  include: [7]\n  on: {}\n", tmp_path / "b.yaml")]
    with pytest.raises(AgentError) as raised:
        roster.resolve(layers[0].document.data["agents"], layers=layers)
    assert [line.partition(": ")[2] for line in str(raised.value).splitlines()] == [
        "the name of an agent must be a text, got 7: put it in quotes",
        "the name of an agent must be a text, got True: put it in quotes",
    ]


@pytest.mark.parametrize("name", ["ns:../a", "../a", "ns:sub/../../a", "/a", "ns:/a", "ns:", ""])
def test_names_that_lead_up_are_refused(roster: Roster, name: str) -> None:
    """An agent's name is a name."""
    for folder in (roster.root, roster.root.parent):
        put(folder / "a.md", agent("outside"))
    with pytest.raises(AgentError, match="names no agent"):
        roster.resolve({name: {}})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ns:", "agents/", "../", "./", "/", "a", "~", "\\", " "]), max_size=6).map("".join))
def test_no_name_leads_out_of_its_place(roster: Roster, tmp_path: Path, name: str) -> None:
    """Whatever a roster calls its agents, only files in folders for agents are read."""
    for folder in (tmp_path, roster.root, roster.project):
        put(folder / "a.md", agent("outside"))
    put(roster.root / "agents" / "a.md", agent("inside"))
    try:
        assert roster.resolve({name: {}})[name]["description"] == "inside"
    except AgentError:
        assert name not in ("a", "ns:a", "ns:agents/a", "ns:./a")
