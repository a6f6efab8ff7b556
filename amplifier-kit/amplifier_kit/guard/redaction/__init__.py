"""Mask secrets before anything is written: by key name, by known live value, and by pattern.

Redaction works on copies and never changes what runs. Ids and times are never masked, because log lines are joined by
them. A value that cannot be scrubbed is dropped.

`redactor` walks through data and log records; `stream` does the same for bytes that arrive in pieces. What is masked:
`field_names` (values under secret names), `known_values` (live secrets), `labels` (`password=…`), and `formats` (tokens
by the table `tokens.txt`, private keys, personal data). `prefilter` keeps all of that fast.
"""
