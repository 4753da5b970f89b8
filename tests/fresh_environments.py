"""Environments that hold what the project declares and nothing else, made of packages that are here already.

pip installs the project's wheel into them without an index. It refuses where a declared requirement is not met by the
declared packages, and their own requirements, that were linked into the environment before. So nothing is downloaded.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    """Build the project as it stands."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("snellen-*.whl")
    return wheel


def install(wheel: Path, folder: Path, extra: str = "", tools: Iterable[str] = ()) -> Path:
    """Make an environment with the wheel, its requirements, those of the extra, and tools. Returns its programs' folder."""
    programs = prepare(wheel, folder, extra, tools)
    target = f"{wheel}[{extra}]" if extra else str(wheel)
    pip("--python", str(programs / "python"), "install", "--no-index", target)
    return programs


def prepare(wheel: Path, folder: Path, extra: str = "", tools: Iterable[str] = ()) -> Path:
    """Make an environment that holds all but the wheel itself. Returns its programs' folder."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    link(closure([*requirements(wheel), *map(Requirement, tools)], extra), site)
    return folder / "bin"


def requirements(wheel: Path) -> list[Requirement]:
    """Read what the wheel requires, with its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    return [Requirement(line.partition(":")[2]) for line in text.splitlines() if line.startswith("Requires-Dist:")]


def closure(required: Iterable[Requirement], extra: str) -> dict[str, metadata.Distribution]:
    """Return the installed packages that requirements name, with what those require."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = list(applying(required, extra))
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        found.setdefault(name, metadata.distribution(name))
        for wanted in ("", *one.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += applying(map(Requirement, found[name].requires or ()), wanted)
    return found


def applying(required: Iterable[Requirement], extra: str) -> Iterator[Requirement]:
    """Yield the requirements that hold on this machine, with or without an extra."""
    for one in required:
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one


def link(packages: dict[str, metadata.Distribution], site: Path) -> None:
    """Link the files of packages into a folder of packages."""
    for package in packages.values():
        for file in package.files or ():
            place = Path(file)
            if place.is_absolute() or place.parts[0] == "..":
                continue
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            if not (site / place).exists():
                (site / place).symlink_to(str(package.locate_file(file)))


def pip(*words: str) -> None:
    """Run this environment's pip, without its configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--quiet", *words],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
