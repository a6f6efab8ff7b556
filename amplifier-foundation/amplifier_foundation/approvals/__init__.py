"""Ask a person for permission: who is asked, who answered, and calls that wait for an answer.

- `approvers`: approval systems, asked one after the other; `Unattended` is the last when no person is present.
- `pending_calls`: tool calls that wait for an answer, in the folder of their session, and how they run once answered.
- `open_calls`: which tool call a request is about.
- `provider_adapter`: the app's approval system for modules that want a published approval provider.
- `answered_by`: who decided, as the log records it.

The kernel makes the request (`amplifier_core.authorization`); the app brings the person.
"""
