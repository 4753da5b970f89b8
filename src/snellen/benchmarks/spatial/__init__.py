"""Twelve spatial benchmarks: how replies are read and scored, as lmms-eval does and as VLMEvalKit does.

Every rule is a pure function from a reply and a gold answer to a `Score`; what the two harnesses share stands once
(`kit_option`, `kit_number`, `kit_choice`, `mra`, `letters`), what a benchmark has of its own stands in the file of its name,
and figures are functions over scored rows (`rows`, `groups`). docs/spatial-rules.md has all of it in words.
"""
