"""Print which files of src/snellen a run of one sample executes functions of, and how many calls each takes.

`python scripts/run_path.py [chart/digits] [--functions]` runs `snellen run <benchmark> --limit 1 -m embedded` in this
process. Module bodies do not count: an import is not yet work. `--functions` adds the functions of each file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

CO_OPTIMIZED = 1  # set for functions, not for the bodies of modules and classes
SOURCE = Path(__file__).resolve().parent.parent / "src" / "snellen"


def functions_called(arguments: list[str]) -> Counter[CodeType]:
    """Run the command line in a folder of its own; return the calls of each function of src/snellen."""
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if event != "call" or not code.co_filename.startswith(f"{SOURCE}{os.sep}"):
            return
        # A comprehension of a module's body belongs to the import.
        if code.co_flags & CO_OPTIMIZED and (
            caller is None or code.co_name[0] != "<" or caller.f_code.co_flags & CO_OPTIMIZED
        ):
            calls[code] += 1

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            from snellen.cli import main

            status = main(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            os.chdir("/")
    if status:
        raise SystemExit(status)
    return calls


def files_called(calls: Counter[CodeType]) -> dict[str, dict[str, int]]:
    """Return the calls by file, and in it by function."""
    files: dict[str, dict[str, int]] = {}
    for code, count in calls.items():
        functions = files.setdefault(str(Path(code.co_filename).relative_to(SOURCE)), {})
        functions[code.co_qualname] = functions.get(code.co_qualname, 0) + count
    return dict(sorted(files.items()))


def main() -> None:
    """Print the figures."""
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    functions = "--functions" in sys.argv
    benchmark = names[0] if names else "chart/digits"
    files = files_called(functions_called(["run", benchmark, "--limit", "1", "-m", "embedded"]))
    for name, called in files.items():
        print(f"{sum(called.values()):7d}  {name}")
        if functions:
            for function, count in called.items():
                print(f"{count:15d}  {function}")
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
