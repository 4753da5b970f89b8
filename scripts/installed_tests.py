"""Tests of the wheel: python scripts/installed_tests.py [WHEEL]

Builds the wheel of this checkout, unless one is named, and runs the tests marked `installed` on it. Their environment
holds what the wheel requires and what the tests use, and not the checkout (tests/fresh_environments.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import fresh_environments  # noqa: E402

TOOLS = ("pytest", "pytest-asyncio", "hypothesis", "pip", "hatchling")


def main(words: list[str]) -> int:
    """Run the tests; return the exit status of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(words[0]).resolve() if words else fresh_environments.build_wheel(Path(folder))
        programs = fresh_environments.install(wheel, Path(folder) / "environment", tools=TOOLS)
        print(f"{wheel.name} in an environment of its own:", flush=True)
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        command = [str(programs / "python"), "-m", "pytest", "-m", "installed", "-p", "no:cacheprovider", "tests"]
        return subprocess.run(
            command, cwd=ROOT, env={**variables, "SNELLEN_TEST_INSTALLED": "1"}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
