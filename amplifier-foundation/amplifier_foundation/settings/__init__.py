"""Settings of four scopes, API keys, and the variables in both."""
