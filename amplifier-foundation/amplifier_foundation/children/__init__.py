"""Child sessions: a `Spawner` gives sessions the capabilities `session.spawn` and `session.resume`.

`capabilities` has the spawner, `spawn` finds or starts the child of a call, `prepare` and `plan` compose it from its
parent and its agent under `restrictions`, `child_session` runs it, `resume` and `results` find its answer again.
"""
