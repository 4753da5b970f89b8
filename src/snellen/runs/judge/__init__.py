"""Judged runs: ask the judge, read its verdicts, extend a judged run."""
