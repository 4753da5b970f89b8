"""Write docs/coverage.md from docs/_data/coverage.toml: what of the four bodies of work there is, and how to repeat it.

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
BODIES = ("FIKA-Bench", "FG-BMK", "VLM2-Bench", "EASI", "Features")
STATES = ("works", "partly", "missing", "needs a GPU", "needs the hub", "needs a licence")
USUAL = re.compile(r" (?:--data FOLDER|--images FOLDER|--model MODEL|-m MODEL|--dataset-dir FOLDER)(?= |$)")
"""What every command of its kind takes, and the page says once."""
HEAD = """# Coverage

What the documents of FIKA-Bench, FG-BMK, VLM2-Bench and EASI promise, and the command that does it here; then what
there is for encoders. Names in capitals are yours. Runs also take `--model MODEL` and, where data are not in the package, `--data FOLDER` and
`--images FOLDER`; `snellen easi` takes `--dataset-dir FOLDER`. A feature without a remark works. This page is written from `docs/_data/coverage.toml` by `python docs/_scripts/coverage_page.py`.

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
        # What one command shows is one line.
        shown: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if row.body == body:
                remark = "" if row.state == "works" else f" ({row.state}{': ' * bool(row.note)}{row.note.rstrip('.')})"
                is_run = row.command.startswith(("snellen run ", "snellen easi "))
                command = USUAL.sub("", row.command) if is_run else row.command
                shown.setdefault((command, remark), []).append(row.name)
        lines.append(f"\n## {body}\n\n")
        lines += [f"- {'; '.join(names)}: `{command}`{remark}\n" for (command, remark), names in shown.items()]
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
