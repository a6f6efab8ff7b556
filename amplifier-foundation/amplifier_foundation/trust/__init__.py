"""What a project may decide: code it names and settings it loosens need the user's trust."""
