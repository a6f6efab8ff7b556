"""Sessions: run them (`runtime`), find them on disk (`store`), resume, fork, export, repair and delete them.

A session is a folder:

- `events.jsonl` and `blobs/`, the log and its large values, written by `amplifier_kit.log`; `log` cuts and copies it;
- `transcript.jsonl`, the messages (`transcript`), which `turns` counts and cuts;
- `metadata.json`, its name, project, model and counters (`metadata`);
- `record.json`, the plan it ran with (`recorder` writes it, `resume` reads it);
- `checkpoints/`, the files that its tools overwrote (`checkpoints`, with `file_states`).

`store` is the way to all of them; `index` keeps its lists fast. `runtime` runs a session, with the help of `plan`,
`capabilities` and `recorder`.
"""
