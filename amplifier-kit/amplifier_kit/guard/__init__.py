"""What stands between a model and the machine: rules, sandbox, files, network, processes, redaction."""
