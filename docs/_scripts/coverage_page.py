"""Write docs/coverage.md from docs/_data/coverage.toml: what of the four seeds there is, and how to repeat it.

Usage: python docs/_scripts/coverage_page.py
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent.parent
DATA = DOCS / "_data" / "coverage.toml"
PAGE = DOCS / "coverage.md"
BODIES = ("FIKA-Bench", "FG-BMK", "VLM2-Bench", "EASI")
STATES = ("works", "in part", "not", "not tried")
USUAL = re.compile(
    r" (?:--data (?:FOLDER|\S+\.zip)|--images FOLDER|--model MODEL|-m MODEL|--dataset-dir FOLDER|--model-(?:name|type) \S+"
    r"|--precision \S+)(?= |$)"
)
"""What every command of its kind takes, and the page says once."""
HEAD = """# Coverage

What the repositories, papers and documents of FIKA-Bench, FG-BMK, VLM2-Bench and EASI have, and the command that does it here. Names in capitals are yours.
Runs also take `--model MODEL` and, where data are not in the package, `--data FOLDER` and `--images FOLDER`; `snellen easi` takes `--dataset-dir FOLDER`,
and a submission [facts about the model](submit.md). A feature works unless something else is said of it. The authors' scripts are on [a page of their own](scripts.md).

"""


class Feature(NamedTuple):
    """One promised feature: the body of work, its name, what a reader types, the test, its state and a remark."""

    body: str
    name: str
    command: str
    test: str = ""
    state: str = "works"
    note: str = ""
    run: bool = False


def features() -> list[Feature]:
    """Return the features of the data file, in its order."""
    rows = tomllib.loads(DATA.read_text(encoding="utf-8"))["feature"]
    return [Feature(**row) for row in rows]


def page() -> str:
    """Return the text of the page."""
    rows = features()
    counts = Counter(row.state for row in rows)
    numbers = ", ".join(f"{state} {counts[state]}" for state in STATES if counts[state])
    lines = [HEAD, f"States of {len(rows)} features: {numbers}.\n"]
    for body in BODIES:
        by_command: dict[str, list[str]] = {}
        for row in (row for row in rows if row.body == body):
            is_run = row.command.startswith(("snellen run ", "snellen easi ", "snellen submit "))
            command = USUAL.sub("", row.command) if is_run else row.command
            remark = ": ".join(word for word in (row.state.removeprefix("works"), row.note) if word)
            by_command.setdefault(command, []).append(f"{row.name} ({remark})" if remark else row.name)
        lines.append(f"\n## {body}\n\n| command | features |\n|---|---|\n")
        lines += [f"| `{command}` | {'; '.join(named)} |\n" for command, named in by_command.items()]
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
