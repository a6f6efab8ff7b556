"""Chat completions, the protocol of OpenAI that most servers speak: `ChatProvider` only needs a name."""
