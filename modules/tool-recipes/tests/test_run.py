"""Recipes run their steps, stop at gates, and go on where they were: in a real session, with real commands."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for


async def test_commands_loops_conditions_and_sub_recipes(world: Any) -> None:
    """A recipe of a command, a loop over its result, a condition and a sub-recipe completes with all their results."""
    world.write(
        "context: {prefix: none}\n"
        "steps: [{id: join, type: bash, command: 'echo {{prefix}}-{{words}}', output: joined}]\n",
        "sub.yaml",
    )
    done = await world.run(
        """
steps:
- {id: list, type: bash, command: 'echo ''["a", "b", "c"]''', output: letters}
- {id: each, type: bash, foreach: "{{letters}}", as: letter, command: 'echo {{_loop_index}}{{letter}}', collect: all}
- {id: skipped, type: bash, condition: "{{letters}} == 'x'", command: touch never}
- {id: more, condition: "{{all.2}} == '2c' and not {{_approval_message}}", type: recipe, recipe: sub.yaml,
   context: {prefix: p, words: "{{all.1}}"}, output: sub}
- {id: last, type: bash, command: 'echo {{sub.joined}} {{greeting}} {{recipe.name}}', output: final_output}
""",
        greeting="hello",
    )
    assert done["status"] == "completed", done
    assert done["summary"]["final_output"] == "p-1b hello work"
    assert done["summary"]["available_outputs"] == ["greeting", "letters", "all", "sub", "final_output"]
    assert done["summary"]["skipped_steps"] == ["skipped"]
    state = world.state(done["session_id"])
    assert state["context"]["all"] == ["0a", "1b", "2c"]
    assert state["context"]["sub"] == {"joined": "p-1b"}
    assert state["completed_steps"] == ["list", "each", "more", "last"]
    assert not (world.project / "never").exists()


STAGES = """
stages:
- name: build
  approval: {required: true, prompt: "Publish {{built}}?"%s}
  steps: [{id: b, type: bash, command: 'echo x >> built; echo 1.2', output: built}]
- name: publish
  steps: [{id: p, type: bash, command: 'echo "{{built}} {{_approval_message}}" > published'}]
"""


async def test_a_stage_waits_for_approval(world: Any, open_world: Any) -> None:
    """A recipe pauses behind a stage, shows the question, and after approval another process resumes it."""
    paused = await world.run(STAGES % "")
    session_id = paused["session_id"]
    assert paused["status"] == "paused_for_approval"
    assert (paused["stage_name"], paused["approval_prompt"]) == ("build", "Publish 1.2?")
    [pending] = (await world.call("approvals"))["pending_approvals"]
    assert (pending["session_id"], pending["approval_default"]) == (session_id, "deny")
    assert (await world.call("resume", session_id=session_id))["status"] == "paused_for_approval"
    assert not (world.project / "published").exists()
    async with open_world() as other:
        assert (await other.call("approve", session_id=session_id, stage_name="publish"))["code"] == "wrong_stage"
        approved = await other.call("approve", session_id=session_id, stage_name="build", message="ship it")
        assert approved["status"] == "approved"
        assert (await other.call("resume", session_id=session_id))["status"] == "completed"
        assert (await other.call("approvals"))["count"] == 0
    assert (world.project / "published").read_text() == "1.2 ship it\n"
    assert (world.project / "built").read_text() == "x\n"
    assert [event for event, _ in world.events if event == "recipe:approval"] == ["recipe:approval"]


async def test_a_denied_stage_ends_the_recipe(world: Any) -> None:
    """After a denial nothing can be resumed."""
    session_id = (await world.run(STAGES % ""))["session_id"]
    assert (await world.call("deny", session_id=session_id, reason="not today"))["status"] == "denied"
    assert (await world.call("resume", session_id=session_id))["code"] == "not_resumable"
    assert world.state(session_id)["approval_history"][0]["message"] == "not today"
    assert not (world.project / "published").exists()


@pytest.mark.parametrize(("default", "expected"), [("deny", "denied_by_gate"), ("approve", "completed")])
async def test_an_expired_gate_takes_its_default(world: Any, default: str, expected: str) -> None:
    """What was not answered in time is decided by the recipe, when it is resumed."""
    session_id = (await world.run(STAGES % f", timeout: 0.001, default: {default}"))["session_id"]
    await asyncio.sleep(0.01)
    done = await world.call("resume", session_id=session_id)
    assert expected in (done.get("code"), done.get("status"))
    assert (world.project / "published").exists() == (expected == "completed")


async def test_a_gate_of_a_sub_recipe_pauses_its_parent(world: Any) -> None:
    """The question is that of the parent, and so is the answer."""
    world.write(STAGES % "", "sub.yaml")
    paused = await world.run("steps: [{id: s, type: recipe, recipe: sub, output: sub}]")
    assert (paused["status"], paused["stage_name"]) == ("paused_for_approval", "build")
    assert (await world.call("approvals"))["count"] == 2
    await world.call("approve", session_id=paused["session_id"], message="yes")
    assert (await world.call("approvals"))["count"] == 0
    done = await world.call("resume", session_id=paused["session_id"])
    assert done["status"] == "completed", done
    assert done["summary"]["final_output"]["built"] == 1.2
    assert (world.project / "built").read_text() == "x\n"


async def test_an_expired_gate_of_a_sub_recipe_lets_its_parent_go_on(world: Any) -> None:
    """The default of the sub-recipe counts when the parent is resumed; before, the parent stays paused."""
    world.write(STAGES % ", timeout: 3600, default: approve", "slow.yaml")
    paused = await world.run("steps: [{id: s, type: recipe, recipe: slow}]")
    assert (await world.call("resume", session_id=paused["session_id"]))["status"] == "paused_for_approval"
    world.write(STAGES % ", timeout: 0.001, default: approve", "sub.yaml")
    paused = await world.run("steps: [{id: s, type: recipe, recipe: sub}]")
    await asyncio.sleep(0.01)
    assert (await world.call("resume", session_id=paused["session_id"]))["status"] == "completed"


async def test_a_long_loop_is_no_recursion(world: Any) -> None:
    """As many iterations as `max_iterations` allows fit into the default limit of steps."""
    world.agent = lambda given: {"output": "ok"}
    items = list(range(100))
    done = await world.run("steps: [{id: a, agent: reviewer, prompt: p, foreach: '{{l}}', collect: all}]", l=items)
    assert done["summary"]["final_output"] == ["ok"] * 100


_KILLED = """
import asyncio, sys
from amplifier_core import AmplifierSession

async def main(project, sessions):
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "tool-bash"}, {"module": "tool-recipes", "config": {"session_dir": sessions}}],
    }
    session = AmplifierSession(plan)
    session.coordinator.register_capability("session.working_dir", project)
    session.coordinator.register_policy("all", lambda action, details: "allow")
    async with session:
        tool = session.coordinator.get("tools")["recipes"]
        await tool.execute({"operation": "execute", "recipe_path": "work.yaml"})

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_run_is_resumed(world: Any) -> None:
    """After a SIGKILL in the middle of a loop, what was done is not done again, and the rest is."""
    world.write("""
context: {items: [1, 2, 3]}
steps:
- {id: first, type: bash, command: echo x >> first, output: out}
- id: loop
  type: bash
  foreach: "{{items}}"
  command: |
    echo {{item}} >> log
    if [ {{item}} = 2 ] && [ ! -e resumed ]; then touch waiting; sleep 100; fi
    echo {{item}}
  collect: all
""")
    sessions = world.project.parent / "sessions"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, str(world.project), str(sessions))
    try:
        assert await wait_for((world.project / "waiting").exists, timeout=60)
    finally:
        process.kill()
        await process.wait()
    (world.project / "resumed").touch()
    [session] = (await world.call("list"))["sessions"]
    assert session["status"] == "running"
    done = await world.call("resume", session_id=session["session_id"])
    assert done["status"] == "completed", done
    assert (world.project / "first").read_text() == "x\n"
    assert (world.project / "log").read_text().split() == ["1", "2", "2", "3"]
    assert world.state(session["session_id"])["context"]["all"] == [1, 2, 3]


async def test_commands_are_judged_as_calls_of_bash(world: Any) -> None:
    """The policy sees the text that would run, folder and variables included; a denied command is not run."""
    world.verdicts["process.exec"] = "deny"
    done = await world.run(
        "steps: [{id: a, type: bash, cwd: sub, env: {KEY: '{{x}}'}, command: 'touch {{x}}', "
        "retry: {max_attempts: 3, initial_delay: 0}}]",
        x="made",
    )
    assert done["code"] == "command_not_done"
    [details] = [details for action, details in world.asked if action == "process.exec"]
    assert details["tool_name"] == "bash"
    assert details["tool_input"]["command"] == "cd -- sub || exit\nexport KEY=made\ntouch made"
    assert not (world.project / "made").exists()
    assert [event for event, _ in world.events if event in ("tool:pre", "tool:error")] == ["tool:pre", "tool:error"]


async def test_folder_and_variables_of_a_command(world: Any) -> None:
    """`cwd` and `env` hold for one command; its exit code can be a variable."""
    (world.project / "a b").mkdir()
    done = await world.run(
        'steps: [{id: a, type: bash, cwd: a b, env: {KEY: "it\'s"}, command: \'echo "$KEY" > out; exit 3\', '
        "on_error: continue, output: out, output_exit_code: code}]"
    )
    assert (world.project / "a b" / "out").read_text() == "it's\n"
    context = world.state(done["session_id"])["context"]
    assert context["code"] == 3
    assert "exit code 3" in context["out"]["error"]


async def test_a_failed_step_ends_the_recipe_and_is_repeated_on_resume(world: Any) -> None:
    """The steps before it are not run again."""
    failed = await world.run(
        "steps: [{id: a, type: bash, command: echo x >> a}, {id: b, type: bash, command: test -e b}, "
        "{id: c, type: bash, command: echo end, output: final_output}]"
    )
    assert failed["code"] == "command_failed"
    [session] = (await world.call("list"))["sessions"]
    assert (session["status"], session["completed_steps"]) == ("failed", ["a"])
    (world.project / "b").touch()
    done = await world.call("resume", session_id=session["session_id"])
    assert done["summary"]["final_output"] == "end"
    assert (world.project / "a").read_text() == "x\n"


async def test_retries_and_skipped_rest(world: Any) -> None:
    """A failing step is tried again; `skip_remaining` completes the recipe without the rest."""
    done = await world.run(
        "steps: [{id: a, type: bash, command: 'echo x >> a; test $(wc -l < a) = 3', "
        "retry: {max_attempts: 3, initial_delay: 0}}, "
        "{id: b, type: bash, command: 'false', on_error: skip_remaining}, {id: c, type: bash, command: touch c}]"
    )
    assert done["status"] == "completed"
    assert (world.project / "a").read_text() == "x\nx\nx\n"
    assert done["summary"]["skipped_steps"] == ["b", "c"]
    assert not (world.project / "c").exists()


async def test_while_loops(world: Any) -> None:
    """A loop runs as long as its condition holds, or until `break_when`; too many iterations are an error."""
    loop = (
        "context: {n: 0}\nsteps: [{id: w, while_condition: '{{n}} < %s', %s, "
        "steps: [{id: inc, type: bash, command: 'echo $(({{n}} + 1))', output: n}]}]"
    )
    done = await world.run(loop % (3, "max_while_iterations: 5"))
    assert world.state(done["session_id"])["context"]["n"] == 3
    done = await world.run(loop % (9, "break_when: '{{n}} == 2'"))
    assert world.state(done["session_id"])["context"]["n"] == 2
    assert (await world.run(loop % (9, "max_while_iterations: 2")))["code"] == "too_many_iterations"


async def test_parallel_iterations_keep_their_order_and_their_variables(world: Any) -> None:
    """Iterations side by side have variables of their own; results are in the order of the items."""
    done = await world.run(
        "context: {items: [3, 1, 2]}\nsteps: [{id: p, foreach: '{{items}}', as: n, parallel: true, collect: all, "
        "steps: [{id: s, type: bash, command: 'echo {{n}}0', output: ten}, "
        "{id: t, type: bash, command: 'echo \"{{ten}} {{n}}\"'}]}]"
    )
    state = world.state(done["session_id"])
    assert state["context"]["all"] == ["30 3", "10 1", "20 2"]
    assert "ten" not in state["context"]


async def test_an_iteration_that_fails_may_be_passed_over(world: Any) -> None:
    """With `on_error: continue` the other iterations run, and the event names the one that failed."""
    done = await world.run(
        "context: {items: [1, 0]}\nsteps: [{id: l, type: bash, foreach: '{{items}}', command: 'exit {{item}}', "
        "on_error: continue, collect: all}]"
    )
    assert "exit code 1" in world.state(done["session_id"])["context"]["all"][0]["error"]
    [failed] = [data for event, data in world.events if event == "recipe:iteration_failed"]
    assert failed["iteration"] == 0


TRUE = "{id: %s, type: bash, command: 'true'}"
LOOP = "context: {l: %s}\nsteps: [{id: a, type: bash, foreach: '{{l}}', max_iterations: 1, command: 'true'}]"


@pytest.mark.parametrize(
    ("recipe", "code"),
    [
        (LOOP % "x", "invalid_loop"),
        (LOOP % "[1, 2]", "too_many_iterations"),
        ("steps: [{id: a, type: bash, command: 'echo {{nope}}'}]", "invalid_value"),
        ("steps: [{id: a, type: recipe, recipe: work.yaml}]", "too_deep"),
        (f"recursion: {{max_total_steps: 1}}\nsteps: [{TRUE % 'a'}, {TRUE % 'b'}]", "too_many_steps"),
        ("steps: [{id: a, type: recipe, recipe: missing.yaml}]", "recipe_unreadable"),
    ],
)
async def test_limits_and_mistakes_at_run_time(world: Any, recipe: str, code: str) -> None:
    """Each ends the recipe with its own code."""
    assert (await world.run(recipe))["code"] == code


WAITING = """
steps:
- {id: a, type: bash, command: "touch a; while [ ! -e go ]; do sleep 0.05; done"}
- {id: b, type: bash, command: touch b}
"""


async def test_a_running_recipe_is_cancelled_before_its_next_step(world: Any) -> None:
    """The tool of the same or of another process asks it to stop, and it can be resumed."""
    world.write(WAITING)
    task = asyncio.create_task(world.call("execute", recipe_path="work.yaml"))
    assert await wait_for((world.project / "a").exists, timeout=60)
    [session] = (await world.call("list"))["sessions"]
    cancelled = await world.call("cancel", session_id=session["session_id"])
    assert cancelled == {"status": "cancellation_requested", "session_id": session["session_id"], "level": "graceful"}
    (world.project / "go").touch()
    assert (await task)["status"] == "cancelled"
    assert not (world.project / "b").exists()
    assert (await world.call("resume", session_id=session["session_id"]))["status"] == "completed"
    assert (world.project / "b").exists()


async def test_an_immediate_cancellation_stops_the_running_step(world: Any) -> None:
    """The command is stopped, and runs again when the recipe is resumed."""
    world.write(WAITING)
    task = asyncio.create_task(world.call("execute", recipe_path="work.yaml"))
    assert await wait_for((world.project / "a").exists, timeout=60)
    [session] = (await world.call("list"))["sessions"]
    assert (await world.call("cancel", session_id=session["session_id"], immediate=True))["level"] == "immediate"
    assert (await task)["status"] == "cancelled"
    assert world.state(session["session_id"])["completed_steps"] == []
    (world.project / "go").touch()
    assert (await world.call("resume", session_id=session["session_id"]))["status"] == "completed"


async def test_another_process_cancels(world: Any, open_world: Any) -> None:
    """A request on disk is seen at the next saved step."""
    world.write(WAITING)
    task = asyncio.create_task(world.call("execute", recipe_path="work.yaml"))
    assert await wait_for((world.project / "a").exists, timeout=60)
    async with open_world() as other:
        [session] = (await other.call("list"))["sessions"]
        await other.call("cancel", session_id=session["session_id"])
    (world.project / "go").touch()
    assert (await task)["status"] == "cancelled"
    assert not (world.project / "b").exists()


async def test_progress_is_reported(world: Any) -> None:
    """The events of a run count its steps, and end with its status."""
    await world.run("steps: [{id: a, type: bash, command: 'true'}, {id: b, type: bash, command: 'true'}]")
    reported = [data for event, data in world.events if event.startswith("recipe:")]
    assert [data["current_step"] for data in reported] == [0, 0, 1, 1, 2, 2]
    assert reported[-1]["status"] == "completed"
    assert reported[3]["steps"][1] == {"id": "b", "name": "b", "status": "in_progress"}


async def test_steps_are_shown(world: Any) -> None:
    """The display of the app gets a line for each step and failure, also one that must be awaited."""
    shown: list[tuple[str, str, str]] = []

    class Display:
        async def show_message(self, message: str, level: str, source: str = "hook") -> None:
            shown.append((message, level, source))

    world.session.coordinator.display_system = Display()
    await world.run(
        "steps: [{id: a, type: bash, command: 'false', on_error: continue}, {id: b, type: bash, command: ls}]"
    )
    assert await wait_for(lambda: len(shown) == 3)
    assert [(message.partition(":")[0], level, source) for message, level, source in shown] == [
        ("work", "info", "recipe"),
        ("Step 'a' failed", "warning", "recipe"),
        ("work", "info", "recipe"),
    ]


async def test_secrets_are_masked_on_disk(world: Any, tmp_path: Path) -> None:
    """A key that a command prints is not in the state."""
    key = "sk-ant-" + "api03-" + "Ab3dEf6h" * 11
    done = await world.run("steps: [{id: a, type: bash, command: 'echo {{k}}', output: out}]", k=key)
    assert done["status"] == "completed"
    assert not any(key.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
