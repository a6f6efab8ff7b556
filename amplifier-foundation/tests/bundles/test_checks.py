"""What a bundle file may say."""

from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import Bundle, BundleError, Owner
from amplifier_foundation.bundles.checks import TOP_LEVEL_FIELDS, check_bundle, validate, validate_completeness
from amplifier_foundation.documents import parse_document

_EVERYTHING = """\
bundle: {name: all, version: 1.2, description: d, namespace_root: .}
includes: [name, "ns:path", ./path, {bundle: git+https://host/x@main}]
session:
  orchestrator: {module: loop, source: x, config: {a: 1}}
  context: context-simple
  raw: true
  orchestrator_source: x
  metadata: {any: thing}
  budget: {usd: 1}
  my_own_key: 1
providers: [{module: p, id: one, source: x, config: {}}]
tools: [{module: t}, {id: one, config: {}}]
hooks:
agents:
  include: [a, "ns:b"]
  c: {description: d, tools: [{module: t}], model_role: fast, provider_preferences: [], agents: none}
context: {include: [a.md], b: b.md}
spawn: {exclude_tools: [tool-x], tools: [{module: t}]}
orchestrator: {config: {}}
"""

_UNKNOWN = [
    ("sesion: {}", "1: unknown key 'sesion': did you mean 'session'?"),
    ("\nbundle:\n  nam: x", "3: unknown key 'nam' in bundle: did you mean 'name'?"),
    ("includes:\n  - {}", "2: includes[0] is ignored: it has no 'bundle'"),
    ("session:\n  budget: {uds: 1}", "2: unknown key 'uds' in session.budget: did you mean 'usd'?"),
    ("session:\n  orchestrater: x", "2: unknown key 'orchestrater' in session: did you mean 'orchestrator'?"),
    ("tools:\n  - module: t\n    confg: {}", "3: unknown key 'confg' in tools[0]: did you mean 'config'?"),
    ("session:\n  context: {module: c, sauce: x}", "2: unknown key 'sauce' in session.context: did you mean"),
    ("agents:\n  a:\n    tool: []", "3: unknown key 'tool' in agents.a: did you mean 'tools'?"),
    ("agents:\n  a:\n    tools:\n      - {module: t, conf: 1}", "4: unknown key 'conf' in agents.a.tools[0]"),
    ("spawn:\n  exclude_tool: []", "2: unknown key 'exclude_tool' in spawn: did you mean 'exclude_tools'?"),
    ("spwn: {}", "1: unknown key 'spwn': did you mean 'spawn'?"),
]
_FOREIGN = [
    ("includes:\n  - bundle: x\n    ref: y", "3: unknown key 'ref' in includes[0]: known: bundle"),
    ("includes:\n  - {ref: y}", "2: includes[0] is ignored: it has no 'bundle'"),
    ("on: 1", "1: unknown key True"),
    ("future: {a: 1}", "1: unknown key 'future': known: bundle, includes,"),
    ("tools:\n  - module: t\n    when: always", "3: unknown key 'when' in tools[0]: known: module,"),
]
_SHAPES = [
    ("bundle: x", "1: 'bundle' must be a mapping, got text"),
    ("bundle:\n  name: 3", "2: 'bundle.name' must be text, got a number"),
    ("includes: x", "1: 'includes' must be a list of bundles, got text"),
    ("includes:\n  - 3", "2: includes[0] must be a reference or {bundle: reference}, got a number"),
    ("includes:\n  - bundle: 3", "2: 'includes[0].bundle' must be text, got a number"),
    ("session: []", "1: 'session' must be a mapping, got a list"),
    ("session:\n  budget: [1]", "2: 'session.budget' must be a mapping of limits, got a list"),
    ("session:\n  budget: {usd: much}", "2: session.budget.usd must be a number of zero or more, got 'much'"),
    ("session:\n  orchestrator: [x]", "2: 'session.orchestrator' must be a module's id or a mapping, got a list"),
    ("hooks: {a: 1}", "1: 'hooks' must be a list of modules, got a mapping"),
    ("tools:\n  - a\n  - 3", "3: tools[1] must be a mapping with a 'module', got a number"),
    ("tools: [a]", "write {module: a}"),
    ("tools:\n  - config: {}", "2: tools[0] must be a mapping with a 'module'"),
    ("tools:\n  - module: 3", "2: tools[0] must be a mapping with a 'module'"),
    ("tools:\n  - id: x\n    module: 3", "3: 'tools[0].module' must be a module's id, got a number"),
    ("tools:\n  - module: t\n    config: [1]", "3: 'tools[0].config' must be a mapping, got a list"),
    ("tools:\n  - module: t\n    source: {a: 1}", "3: 'tools[0].source' must be text, got a mapping"),
    ("agents: 3", "1: 'agents' must be a mapping, 'all', 'none' or a list of names, got a number"),
    ("agents:\n  include: a", "2: 'agents.include' must be a list of agent names, got text"),
    ("agents:\n  a: 3", "2: 'agents.a' must be a mapping, got a number"),
    ("context: [a.md]", "1: 'context' must be a mapping, got a list"),
    ("context:\n  a: [x]", "2: 'context.a' must be text, got a list"),
    ("context:\n  include:\n    - 3", "3: 'context.include[0]' must be text, got a number"),
    ("spawn: x", "1: 'spawn' must be a mapping, got text"),
    ("spawn:\n  exclude_tools: x", "2: 'spawn.exclude_tools' must be a list of module ids, got text"),
    ("spawn:\n  tools: [t]", "2: spawn.tools[0] must be a mapping with a 'module'"),
]
_FILE = Path("b.yaml")


def _check(text: str, owner: Owner) -> list[str]:
    return check_bundle(parse_document(_FILE, text.encode()), owner)


@pytest.mark.parametrize("owner", ["product", "user", "project", "fetched"])
def test_every_known_key_passes(owner: Owner) -> None:
    """A file that uses every key of the format, and free keys of a session, has no fault and no warning."""
    assert _check(_EVERYTHING, owner) == []


@pytest.mark.parametrize(("text", "said"), _UNKNOWN)
def test_unknown_keys(text: str, said: str) -> None:
    """An unknown key is an error with line and suggestion in authored files, a warning with both in fetched ones."""
    owners: tuple[Owner, ...] = ("product", "user", "project")
    for owner in owners:
        with pytest.raises(BundleError) as caught:
            _check(text, owner)
        assert f"b.yaml:{said}" in str(caught.value)
    warnings = _check(text, "fetched")
    assert len(warnings) == 1
    assert f"b.yaml:{said}" in warnings[0]


@pytest.mark.parametrize(("text", "said"), _FOREIGN)
def test_foreign_keys(text: str, said: str) -> None:
    """A key that looks like no known one is a warning with its line, as nothing else reads it either.

    Only the product's own files must not have one.
    """
    owners: tuple[Owner, ...] = ("user", "project", "fetched")
    for owner in owners:
        (warning,) = _check(text, owner)
        assert f"b.yaml:{said}" in warning
    with pytest.raises(BundleError, match=r"unknown key|is ignored"):
        _check(text, "product")


@pytest.mark.parametrize("owner", ["product", "user", "project", "fetched"])
def test_a_behavior_is_included_like_a_bundle(owner: Owner) -> None:
    """`behavior:` is read as `bundle:`, with a notice that says on which line."""
    (notice,) = _check("includes:\n  - a\n  - behavior: ./x.yaml", owner)
    assert notice == "b.yaml:3: includes[1]: 'behavior' is read as 'bundle': write {bundle: ./x.yaml}"


@pytest.mark.parametrize("owner", ["user", "fetched"])
@pytest.mark.parametrize(("text", "said"), _SHAPES)
def test_wrong_shapes(text: str, said: str, owner: Owner) -> None:
    """A value of the wrong shape is an error with its line, whoever wrote the file."""
    with pytest.raises(BundleError) as caught:
        _check(text, owner)
    assert said in str(caught.value)
    assert caught.value.code == "bundle_invalid"


def test_all_faults_are_told_at_once() -> None:
    """One error names every fault of a file, each on its line."""
    with pytest.raises(BundleError) as caught:
        _check("tols: []\nhooks: x\nsession:\n  contxt: c\n", "user")
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["b.yaml:1:", "b.yaml:2:", "b.yaml:4:"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default_provider: p", "'default_provider' has no effect"),
        ("bundle: {sub_bundles: []}", "'bundle.sub_bundles' has no effect"),
        ("agents: all", "in a bundle it adds none"),
        ("agents: [a, b]", "in a bundle it adds none"),
    ],
)
def test_keys_without_effect_are_told(text: str, said: str) -> None:
    """What bundles in the wild say in vain is accepted with a warning."""
    assert said in _check(text, "user")[0]


@given(key=st.text(min_size=1, max_size=12), value=st.none() | st.integers() | st.lists(st.integers()))
def test_any_key_is_known_or_told(key: str, value: object) -> None:
    """No key at the top is ever ignored in silence."""
    assume(key not in TOP_LEVEL_FIELDS)
    assert any("unknown key" in warning for warning in _check(yaml.safe_dump({key: value}), "fetched"))


def test_validate(tmp_path: Path) -> None:
    """Every entry needs a module in the end; missing context counts when strict."""
    bundle = Bundle(
        name="b", tools=[{"id": "t"}], session={"orchestrator": {"config": {}}}, context={"a": tmp_path / "gone"}
    )
    bundle.pending_context = ("ns:x",)
    result = validate(bundle)
    assert [error.partition(":")[0] for error in result.errors] == [
        "tools[0] has no 'module'",
        "session.orchestrator has no 'module'",
    ]
    assert len(result.warnings) == 2
    assert len(validate(bundle, strict=True).errors) == len(result.errors) + 2


def test_validate_completeness() -> None:
    """A bundle that is run as it is needs a loop, a context and a provider."""
    bundle = Bundle(name="b", session={"orchestrator": "loop"})
    assert validate(bundle).errors == []
    assert [error.split(" ")[0] for error in validate_completeness(bundle).errors] == ["session.context", "there"]
