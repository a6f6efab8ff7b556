"""The corpus of escapes: every entry is judged as it is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rule_parser import parse_rules
from amplifier_kit.guard.policy.rules import RuleSet

FOLDER = Path(__file__).parent / "corpus"
CORPORA: dict[str, dict[str, Any]] = {
    name: yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    for name in ("commands", "paths", "hosts")
}


def cases(corpus: str) -> list[tuple[str, str]]:
    """Return every text of a corpus with its verdict."""
    return [(text, verdict) for verdict, texts in CORPORA[corpus]["cases"].items() for text in texts]


def rules_of(corpus: str, project: Path) -> RuleSet:
    """Return the rules of a corpus, all of them good."""
    rules, problems = parse_rules(CORPORA[corpus]["rules"], lambda index, key: f"{corpus}.yaml[{index}]")
    assert problems == []
    return RuleSet(rules, project)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the tree and the links of the corpus of paths, and a folder outside of it."""
    project, outside = tmp_path_factory.mktemp("place") / "p", tmp_path_factory.mktemp("outside")
    corpus = CORPORA["paths"]
    for name in corpus["tree"]:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x", encoding="utf-8")
    (outside / "file").write_text("x", encoding="utf-8")
    for name, target in corpus["links"].items():
        (project / name).symlink_to(target.format(project=project, outside=outside))
    (project.parent / "beside").symlink_to(outside)
    return project


@pytest.mark.parametrize(("command", "verdict"), cases("commands"))
def test_command_of_the_corpus(command: str, verdict: str, project: Path) -> None:
    """Every shell line of the corpus has the verdict that is written beside it."""
    decision = rules_of("commands", project).decide(facts("process.exec", {"command": command}, project))
    assert (decision.verdict or "none") == verdict, decision


@pytest.mark.parametrize(("path", "verdict"), cases("paths"))
def test_path_of_the_corpus(path: str, verdict: str, project: Path) -> None:
    """Every path of the corpus has the verdict that is written beside it, for reading and for writing."""
    outside = (project.parent / "beside").readlink()
    text = path.replace("{project}", str(project)).replace("{outside}/..", str(project.parent))
    text = text.replace("{outside}", str(outside))
    for action in ("filesystem.read", "filesystem.write"):
        found = facts(action, {"tool_name": "read_file", "tool_input": {"file_path": text}}, project)
        decision = rules_of("paths", project).decide(found)
        assert (decision.verdict or "none") == verdict, (found, decision)


@pytest.mark.parametrize(("url", "verdict"), cases("hosts"))
def test_host_of_the_corpus(url: str, verdict: str, project: Path) -> None:
    """Every URL of the corpus has the verdict that is written beside it."""
    found = facts("network.fetch", {"tool_name": "web_fetch", "tool_input": {"url": url}}, project)
    decision = rules_of("hosts", project).decide(found)
    assert (decision.verdict or "none") == verdict, (found, decision)
