"""Anybody's questions: a table of rows, or a declaration in TOML, as a benchmark."""
