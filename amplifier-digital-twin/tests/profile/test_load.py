"""Profiles of version 1: what is read, and what is refused, where and in which words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.load import load, parse_variables, read_saved_profile, save_profile

#: What is the author's own: names of variables, and JSON to compare with.
_FREE = {"environment", "expect_json", "stdout_json", "vars"}
_PROPERTY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _places(data: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where every value stands that a table reads."""
    found = [keys]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += [(*keys, key)] if key in _FREE else _places(value, (*keys, key))
    return found


def _at(data: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        data = data[key]
    return data


def test_every_key_is_read(loaded: Any, full: dict[str, Any], folder: Path) -> None:
    """A profile that uses every key becomes what it says."""
    profile = loaded(full).profile
    assert profile.limits == model.Limits(memory=2 * 1024**3, pids=512, cpus=1.5, disk=4 * 1024**3, wall=1200.0)
    assert profile.repositories[0].model_dump() == {
        "path": str(folder / "tree"),
        "url": "https://github.com/owner/core",
        "ref": "main",
    }
    assert profile.provision.files[0].dest == "~/file.txt"
    assert (profile.provision.files[0].src, profile.provision.files[0].mode) == (folder / "file.txt", 0o600)
    assert profile.readiness[1].tcp == 80
    assert profile.checks[0].expect.jsonl[0].glob == "~/**/x.jsonl"
    assert profile.checks[0].expect.files[0].mode == 0o644
    assert profile.checks[3].provenance == ("core",)
    assert profile.artifacts == ("~/logs",)
    assert profile.environment == {"COLOUR": "teal"}
    assert (profile.backend, profile.isolation, profile.on_failure) == ("podman", "best-effort", "keep")


def test_defaults_are_safe(loaded: Any) -> None:
    """Without a word there is no network, no root, and destruction after a failure."""
    profile = loaded("dtu: 1\nname: x\n").profile
    assert profile == model.Profile(name="x")
    assert (profile.network.mode, profile.user.uid, profile.on_failure) == ("none", 1000, "destroy")


def test_a_gateway_without_a_list_lets_nothing_through(loaded: Any) -> None:
    """`network: gateway` is not a way to the world."""
    assert loaded("dtu: 1\nname: x\nnetwork: gateway\n").profile.network == model.Network(mode="gateway")


@_PROPERTY
@given(data=st.data())
def test_any_unknown_key_anywhere_is_refused(data: st.DataObject, refused: Any, full: dict[str, Any]) -> None:
    """However deep it stands, a key that is not known is an error that names it."""
    places = [keys for keys in _places(full) if isinstance(_at(full, keys), dict) and not _FREE & set(keys)]
    place = data.draw(st.sampled_from(places))
    key = data.draw(st.text("abcdefgé_-", min_size=1, max_size=8).filter(lambda text: text not in _at(full, place)))
    values: list[Any] = [1, "x", [], {}, None, {"a": {"b": 1}}]
    value = data.draw(st.sampled_from(values))
    changed = copy.deepcopy(full)
    _at(changed, place)[key] = value
    message = refused(changed).message
    assert key in message
    assert "profile.yaml:" in message


@_PROPERTY
@given(data=st.data())
def test_any_wrong_type_anywhere_is_refused(data: st.DataObject, refused: Any, full: dict[str, Any]) -> None:
    """A value of another type is refused wherever it stands."""
    places = [keys for keys in _places(full) if keys and keys[-1] not in _FREE - {"environment", "vars"}]
    place = data.draw(st.sampled_from(places))
    changed = copy.deepcopy(full)
    _at(changed, place[:-1])[place[-1]] = data.draw(st.sampled_from([[[[]]], {"no": {"such": "thing"}}, -1.5]))
    assert "profile.yaml:" in refused(changed).message


def test_a_key_without_a_value_has_its_default(loaded: Any) -> None:
    """`key:` with nothing behind it is as if it was not there, except where nothing means no limit."""
    profile = loaded("dtu: 1\nname: x\nchecks:\nnetwork:\nlimits: {wall: , disk: }\n").profile
    assert profile == model.Profile(name="x", limits=model.Limits(disk=None))


@pytest.mark.parametrize(
    ("written", "size"),
    [(512, 512), ("512", 512), ("20m", 20 * 2**20), ("1.5g", 3 * 2**29), ("2 GiB", 2**31), ("7b", 7)],
)
def test_sizes_are_read_as_people_write_them(loaded: Any, written: object, size: int) -> None:
    """Units are powers of 1024, in any case."""
    assert loaded({"dtu": 1, "name": "x", "limits": {"memory": written}}).profile.limits.memory == size


@pytest.mark.parametrize(
    ("written", "seconds"), [(90, 90), (0.5, 0.5), ("90", 90), ("500ms", 0.5), ("20m", 1200), ("1.5h", 5400)]
)
def test_durations_are_read_as_people_write_them(loaded: Any, written: object, seconds: float) -> None:
    """A plain number is in seconds."""
    assert loaded({"dtu": 1, "name": "x", "limits": {"wall": written}}).profile.limits.wall == seconds


@_PROPERTY
@given(
    written=st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
    | st.sampled_from(["g", "-1", "1x", "1e9", "٣", "1 2", True, [], float("inf"), "1..2g"])
)
def test_a_quantity_is_above_nothing_or_refused(loaded: Any, written: object) -> None:
    """Nothing is guessed: no signs, exponents, foreign digits or truth values."""
    data = {"dtu": 1, "name": "x", "limits": {"memory": written, "wall": written}}
    try:
        limits = loaded(data).profile.limits
        assert limits.memory > 0
        assert limits.wall > 0
    except TwinError as error:
        said = error.message
        assert "must be a" in said or "${" in said


def test_faults_name_file_line_and_the_nearest_key(refused: Any, folder: Path) -> None:
    """All problems are reported at once, in the order of the file."""
    error = refused(
        "dtu: 1\nname: x\nlimits:\n  memry: 2g\nnetwork:\n  mode: gatway\nchecks:\n  - name: a\n    run: 5\n"
    )
    path = folder / "profile.yaml"
    assert error.message.splitlines() == [
        f"{path}:4: unknown config key 'limits.memry': did you mean 'limits.memory'?",
        f"{path}:6: config key 'network.mode' must be one of none, gateway, host, got 'gatway'",
        f"{path}:9: config key 'checks.0.run' must be text that is not empty, or null, got 5",
    ]
    assert "docs/digital-twin.md lists every key" in error.remedy


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dtu: 2", "'dtu' must be 1, got 2"),
        ("varz: {A: {}}", "did you mean 'vars'?"),
        ("true: x", "unknown config key 'True'"),
        ("user: {name: root}", "write {name: root, uid: 0} for root"),
        ("user: {name: x, uid: 0}", "write {name: root, uid: 0} for root"),
        ("network: {mode: none, allow: [example.com]}", "means nothing when the mode is 'none'"),
        ("network: {mode: gateway, allow: ['*.example.com']}", "each entry '@package-index', '@apt' or the exact name"),
        ("network: {mode: gateway, allow: ['*']}", "each entry '@package-index', '@apt' or the exact name"),
        ("base: {image: host, tar: {path: base.tar, sha256: abc}}", "must be a SHA-256"),
        ("repositories: [{path: nowhere, url: 'https://h.example/o/r'}]", "no such file"),
        ("repositories: [{path: file.txt, url: 'https://h.example/o/r'}]", "is not a folder"),
        ("repositories: [{path: tree, url: 'https://u:p@h.example/o/r'}]", "it has credentials"),
        ("repositories: [{path: tree, url: 'https://h.example'}]", "must be the address of a repository"),
        ("repositories: [{path: tree, url: 'https://h.example/../r'}]", "must be the address of a repository"),
        ("repositories: [{path: tree, url: 'https://h.example/o/r', ref: --upload-pack=x}]", "must be 'worktree'"),
        ("rewrites: [{match: 'https://a.example', target: 'mock:m'}]", "must be a host and at most a path"),
        ("rewrites: [{match: a.example, target: 'mock:m'}]", "unknown mock 'm'"),
        ("rewrites: [{match: a.example, target: 'ftp://a.example'}]", "must be an address"),
        ("packages: [{name: a}]", "exactly one of wheel_path, wheel_from_git"),
        ("packages: [{name: a, wheel_from_git: {repo: nope}}]", "unknown repository 'nope'"),
        ("mocks: [{name: a, run: x, port: 1}, {name: a, run: x, port: 2}]", "'a' is given twice"),
        ("mocks: [{name: a, run: x, port: 70000}]", "must be a whole number from 1 to 65535"),
        ("readiness: [{name: a, tcp: 1, command: x}]", "has tcp and command: exactly one"),
        ("readiness: [{name: a}]", "has nothing to do"),
        ("checks: [{name: a}]", "has nothing to do"),
        ("checks: [{name: a, run: x, provenance: all}]", "has run and provenance"),
        ("checks: [{name: a, provenance: all, expect: {exit: 1}}]", "there is no 'run'"),
        ("checks: [{name: a, run: x, user: nobody}]", "there is no user 'nobody'"),
        ("checks: [{name: ../a, run: x}]", "must be a name"),
        ("checks: [{name: a, run: x, expect: {files: [{path: x}]}}]", "that starts with / or ~/"),
        ("checks: [{name: a, run: x, expect: {files: [{path: /x, matches: '('}]}}]", "must be a regular expression"),
        (
            "checks: [{name: a, screenshot: {url: 'http://localhost', file: ../x.png}}]",
            "must be the name of a .png file",
        ),
        ("provision: {files: [{src: file.txt, dest: /x, mode: 0644}]}", "permissions in octal and in quotes"),
        (
            "provision: {commands: [{run: x, timeout: 5 minutes}]}",
            "must be a duration above 0, like 90s or 20m, got '5 minutes'",
        ),
        ("limits: {wall: 0}", "must be a duration above 0"),
        ("secrets: [{env: A}]\nenvironment: {A: x}", "is one of the secrets too"),
        ("environment: {A: 1}", "must be text"),
        ("access: {ports: [{host: 80, container: 1}, {host: 80, container: 2}]}", "'80' is given twice"),
        ("name: x", "the key 'name' is given twice"),
        ("network: host\nmocks: [{name: a, run: x, port: 1}]", "nothing can be served"),
        ("backend: embedded", "the embedded runtime no longer exists"),
        ("uv: {lock: relock}", "must be 'refuse', got 'relock'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(refused: Any, line: str, words: str) -> None:
    """Each rule of the format has an error that says what is wrong."""
    start = "name: x\n" if line.startswith("dtu") else "dtu: 1\nname: x\n"
    assert words in refused(f"{start}{line}\n").message


def test_short_forms_are_read(loaded: Any) -> None:
    """Where only one key matters, its value can stand alone."""
    profile = loaded(
        """
dtu: 1
name: x
base: host
secrets: [API_KEY]
provision: {commands: [echo hello]}
readiness: [{name: a, tcp: 80}, {name: b, http: "http://localhost/"}]
checks: [{name: a, expect: {files: ~/there, refused: [a.example]}}]
"""
    ).profile
    assert profile.secrets == (model.Secret(env="API_KEY"),)
    assert profile.provision.commands == (model.Command(run="echo hello"),)
    assert (profile.readiness[0].tcp, profile.readiness[1].http) == (80, model.HttpProbe(url="http://localhost/"))
    assert [file.path for file in profile.checks[0].expect.files] == ["~/there"]


def test_root_must_be_asked_for(loaded: Any) -> None:
    """Root's home is its own."""
    profile = loaded("dtu: 1\nname: x\nuser: {name: root, uid: 0}\nartifacts: [~/a]\n").profile
    assert (profile.user.uid, profile.artifacts) == (0, ("~/a",))


def test_limits_can_be_lifted_one_by_one(loaded: Any) -> None:
    """`null` means no limit, and only where it is written."""
    limits = loaded("dtu: 1\nname: x\nlimits: {memory: null}\n").profile.limits
    assert limits == model.Limits(memory=None)


@pytest.mark.parametrize("prefix", ["\ufeff", "# comment\r\n"])
def test_byte_order_marks_and_line_ends_do_not_matter(write: Any, prefix: str) -> None:
    """A file from any editor is read."""
    path = write(f"{prefix}dtu: 1\r\nname: x\r\n")
    assert load(str(path), {}).profile.name == "x"


def test_malformed_files_are_refused_with_their_line(refused: Any) -> None:
    """What YAML says about the file becomes an error of the profile."""
    assert "profile.yaml:3: malformed YAML" in refused("dtu: 1\nname: x\nbase: host: x\n").message


def test_home_directories_of_the_host_are_known(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in a path of the host is the home of the user who runs the program."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert (
        "/home/somebody/nowhere"
        in refused("dtu: 1\nname: x\nprovision: {files: [{src: ~/nowhere, dest: /x}]}\n").message
    )


def test_validate_says_what_was_understood(write: Any, full: dict[str, Any]) -> None:
    """The answer is JSON and holds the profile."""
    import json

    answer = json.loads(json.dumps(load(str(write(full)), {}).describe()))
    assert (answer["valid"], answer["format"], answer["profile"]["user"]["home"]) == (True, "dtu-1", "/home/somebody")
    assert answer["profile"]["environment"] == {"COLOUR": "teal"}


def test_options_become_variables() -> None:
    """`--var` has a name and a value, each name once; a value may hold `=`."""
    assert parse_variables(["A=1", "B=x=y", "C="]) == {"A": "1", "B": "x=y", "C": ""}
    for wrong in (["A"], ["=x"], ["A=1", "A=2"]):
        with pytest.raises(TwinError) as caught:
            parse_variables(wrong)
        assert caught.value.code == "bad_argument"


def test_loading_says_which_format_it_was(write: Any) -> None:
    """Ours is told from the published one by `dtu`."""
    assert load(str(write("dtu: 1\nname: x\n")), {}).format == "dtu-1"
    assert load(str(write("base: {image: 'ubuntu:24.04'}\n")), {}).format == "published"


def test_a_saved_profile_is_read_back_as_it_was(loaded: Any, full: dict[str, Any], tmp_path: Path) -> None:
    """Commands on a running universe use exactly what was launched, also when the sources have moved."""
    profile = loaded(full).profile
    save_profile(profile, tmp_path / "saved.json")
    assert read_saved_profile(tmp_path / "saved.json") == profile


def test_variables_are_typed_and_filled_in_everywhere(loaded: Any, refused: Any, folder: Path) -> None:
    """A text that is only a variable keeps its type; default paths start from the profile's folder."""
    text = "dtu: 1\nname: x\nvars: {P: {type: integer, default: 80}, T: {type: path, default: tree}}\n"
    text += "readiness: [{name: a, tcp: '${P}'}]\nrepositories: [{path: '${T}', url: 'https://h.example/o/r'}]\n"
    profile = loaded(text, P="81").profile
    assert (profile.readiness[0].tcp, profile.repositories[0].path) == (81, folder / "tree")
    assert "must be a whole number, got 'many'" in refused(text, P="many").message
    assert "did you mean 'P'" in refused(text, PP="1").message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("description: '${X}'", "the variable ${X} has no value"),
        ("vars: {X: {required: true}}", "a value is required: give it with --var X=VALUE"),
        ("vars: {X: {default: '${Y}'}}", "cannot refer to another one"),
        ("vars: {X: {default: a}}\nenvironment: {'${X}': a}", "config key 'environment"),
        ("description: '${'", "is left after variables were filled in"),
    ],
)
def test_an_unresolved_variable_is_an_error(refused: Any, text: str, words: str) -> None:
    """Nothing that looks like a variable ever reaches a command unresolved."""
    assert words in refused(f"dtu: 1\nname: x\n{text}\n").message
