"""What a session may do: the rules of the user, the project, the bundle and the product, and what was remembered."""
