"""Reviews: people's decisions about automatic verdicts, who agrees with whom, and which cases to look at.

`decisions` is one line of reviews.jsonl; `journal` reads and appends them. `cases` orders replies by doubt, and
`audit_sample` draws a part whose figures hold for the whole.
"""
