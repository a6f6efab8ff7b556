# One session sends agents: one answers, one goes on, one does not exist, one is stopped. Then all five events must be in
# its log, and the tree complete.
set -eu

cat > ~/team.yaml <<END
turns:
  - tool_calls:
      - {name: delegate, arguments: {agent: explorer, instruction: Which scripts are there?, context_depth: none}}
      - {name: delegate, arguments: {agent: nobody, instruction: Say something.}}
  - text: There is one, and nobody is not an agent.
agents:
  explorer:
    - tool_calls: [{name: glob, arguments: {pattern: "*.sh"}}]
    - {text: One., expect: {contains: delegation.sh}}
END
mkdir -p ~/work && cd ~/work && cp ~/delegation.sh .
amplifier run --bundle team "Look around." > ~/first.txt
grep -q "There is one" ~/first.txt

log="$(grep -l delegate:agent_spawned ~/.amplifier/projects/*/sessions/*/events.jsonl)"
root="$(basename "$(dirname "$log")")"
child="$(grep -o '[0-9a-f]\{16\}-[0-9a-f]\{16\}_amplifier-explorer' "$log" | head -1)"
cat > ~/team.yaml <<END
turns:
  - tool_calls: [{name: delegate, arguments: {session_id: $child, instruction: How many are that?}}]
  - tool_calls: [{name: delegate, arguments: {agent: self, instruction: Think for a long time.}}]
    expect: {contains: "There is one."}
agents:
  explorer: [{text: There is one., expect: {contains: Which scripts are there}}]
  self: [{text: Done., delay_ms: 60000}]
END
amplifier run --resume "$root" "Ask how many, then take your time." & run=$!
until [ "$(grep -c delegate:agent_spawned "$log")" = 2 ]; do kill -0 $run; sleep 0.05; done
kill -TERM $run
wait $run && exit 1

for event in agent_spawned agent_resumed agent_completed agent_cancelled error; do
  grep -q '"event": "delegate:'$event'"' "$log" || { echo "FAIL: delegate:$event"; exit 1; }
done
amplifier logs "$root" --tree > ~/tree.txt
test "$(grep -c '▸ amplifier:explorer\|▸ self\|▸ nobody' ~/tree.txt)" = 3
test "$(grep -c '■ amplifier:explorer completed\|■ self cancelled\|■ nobody failed' ~/tree.txt)" = 3
echo COMPLETE
