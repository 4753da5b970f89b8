"""Twelve spatial benchmarks of EASI, asked and scored as lmms-eval does, as VLMEvalKit does, as EASI reports, and strictly.

A row of whatever layout (`layouts`) becomes a `question`; `prompts` put it, `scorers` read the reply by the profile's `rules`,
`summaries` make figures of scores. `exchange` reads and writes the two harnesses' files; `reference` holds what others
published. `benchmarks` declares all of it, from the names in `tasks`. docs/spatial.md and docs/spatial-rules.md have it in words.
"""
