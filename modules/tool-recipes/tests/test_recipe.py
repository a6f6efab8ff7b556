"""A recipe is checked as a whole before anything of it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_module_tool_recipes.recipe import RecipeError, Retry, parse_recipe

HEADER = "name: n\ndescription: d\nversion: 1.0.0\n"
STEP = "steps: [{id: a, type: bash, command: 'true'%s}]"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (STEP % ", comand: x", "steps.0.comand: unknown key"),
        (STEP % "" + "\nauthors: x", "authors: unknown key"),
        ("context: {}", "give either steps or stages"),
        (STEP % "" + "\nstages: [{name: s, steps: [{id: b, type: bash, command: x}]}]", "give either steps or stages"),
        ("steps: [{id: a, agent: x}]", "step 'a': prompt is missing for type agent"),
        ("steps: [{id: a, type: bash}]", "step 'a': command is missing for type bash"),
        ("steps: [{id: a, type: recipe}]", "step 'a': recipe is missing for type recipe"),
        ("steps: [{id: a, type: bash, command: x}, {id: a, type: bash, command: x}]", "the id is used twice"),
        (STEP % ", depends_on: [b]", "depends_on 'b' is no step before it"),
        (STEP % ", output: session", "output 'session' is reserved"),
        ("context: {step: 1}\n" + STEP % "", "context.step: the name is reserved"),
        (STEP % ", foreach: 'a{{b}}'", "foreach must be one variable"),
        (STEP % ", collect: all", "collect needs foreach"),
        (STEP % ", condition: 'x == 1'", "condition: invalid condition 'x == 1'"),
        (STEP % ", model: x", "model needs provider"),
        (STEP % ", timeout: 0", "steps.0.timeout"),
        (STEP % ", on_error: ignore", "steps.0.on_error"),
        ("steps: []", "steps: List should have at least 1 item"),
        ("version: 1\n" + STEP % "", "version"),
        ("[1", "not YAML"),
        ("- 1", "not YAML"),
        ("context: &a {b: *a}\n" + STEP % "", "it has more than 100,000 values, aliases followed"),
        (
            "context:\n  a0: &a0 [1, 1]\n"
            + "".join(f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
            + STEP % "",
            "it has more than 100,000 values, aliases followed",
        ),
    ],
)
def test_mistakes_are_named(text: str, error: str) -> None:
    """Each mistake is a line with the file, the place and what is wrong."""
    with pytest.raises(RecipeError, match="Recipe validation failed") as raised:
        parse_recipe(
            HEADER.replace("version: 1.0.0\n", "") + text if text.startswith("version") else HEADER + text, "r.yaml"
        )
    assert any(error in line for line in raised.value.errors), raised.value.errors
    assert all(line.startswith("r.yaml: ") for line in raised.value.errors)


def test_all_mistakes_are_named_at_once() -> None:
    """Two steps with a mistake each are two lines."""
    with pytest.raises(RecipeError) as raised:
        parse_recipe(HEADER + "steps: [{id: a, type: bash}, {id: b, type: recipe}]", "r")
    assert len(raised.value.errors) == 2


def test_variables_that_the_caller_has_to_give_are_warnings() -> None:
    """A variable that neither the context nor an earlier step defines is named, others are not."""
    text = (
        "context: {known: 1}\nsteps:\n"
        "- {id: a, type: bash, command: 'echo {{known}} {{given}} {{session.id}}', output: out}\n"
        "- {id: b, type: bash, foreach: '{{out}}', as: one, command: 'echo {{one}}'}\n"
    )
    assert parse_recipe(HEADER + text, "r").warnings == ("step 'a': {{given}} must be given in context",)


def test_retries_wait_longer_and_longer() -> None:
    """Delays double or grow by the first one, up to the longest."""
    assert [Retry(initial_delay=2, max_delay=10).delay(n) for n in (1, 2, 3, 4)] == [2, 4, 8, 10]
    assert [Retry(initial_delay=2, max_delay=5, backoff="linear").delay(n) for n in (1, 2, 3)] == [2, 4, 5]


def test_every_documented_key_is_read(tmp_path: Path) -> None:
    """A recipe with every key of the format is valid."""
    text = """
author: Ada
created: 2026-01-02
updated: "2026-01-03"
tags: [a, b]
context: {files: [a]}
recursion: {max_depth: 2, max_total_steps: 10}
rate_limiting: {max_concurrent_llm: 2, min_delay_ms: 5, backoff: {enabled: true, initial_delay_ms: 1, max_delay_ms: 2,
  multiplier: 2, reset_after_success: 3}}
orchestrator: {config: {max_iterations: 5}}
stages:
- name: one
  approval: {required: true, prompt: "Go?", timeout: 60, default: approve}
  steps:
  - {id: a, agent: x, prompt: p, mode: ANALYZE, provider: mock, model: m, output: o, timeout: 9, parse_json: true,
     retry: {max_attempts: 2, backoff: linear, initial_delay: 0, max_delay: 1}, on_error: continue,
     spawn_mode: subprocess}
  - {id: b, agent: x, prompt: p, provider_preferences: [{provider: p, model: "m*", config: {a: 1}}], depends_on: [a]}
  - {id: c, agent: x, prompt: p, model_role: [fast, general], condition: "{{o}} == 'x'"}
  - {id: d, type: recipe, recipe: other.yaml, context: {a: 1}, recursion: {max_depth: 1}}
  - {id: e, type: bash, command: ls, cwd: ., env: {A: b}, output_exit_code: code}
  - {id: f, type: bash, command: ls, foreach: "{{files}}", as: file, collect: all, parallel: 2, max_iterations: 3,
     checkpoint_iterations: false}
  - {id: g, while_condition: "{{n}} < 3", max_while_iterations: 5, break_when: "{{n}} == 2", update_context: {n: 1},
     steps: [{id: h, type: bash, command: ls}]}
"""
    assert len(list(parse_recipe(HEADER + text, "r").recipe.all_steps())) == 7


def test_a_file_that_is_no_recipe_is_not_quoted() -> None:
    """A mistake in its form is named by its place: what a file says that a model named by chance is not shown."""
    with pytest.raises(RecipeError) as raised:
        parse_recipe("a: 1\nb: [private words", "r.yaml")
    assert raised.value.errors[0].startswith("r.yaml: not YAML: line 2, column ")
    assert "private" not in str(raised.value.errors)
