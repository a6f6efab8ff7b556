"""MCP servers: the files that name them, and starting them to see what they offer."""
