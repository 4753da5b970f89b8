"""Installs the programs of tried_with.toml, runs the tests that use them, and writes docs/tried-with.md.

    python scripts/tried_with.py [PROGRAM ...]

Each program gets an environment in .external/, which a second call uses as it is. VLMEVALKIT names a checkout of VLMEvalKit;
without it the kit is left out. Programs named alone write no page.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tried_with_page import page

from snellen.easi.external import HarnessSettings, vlmevalkit

ROOT = Path(__file__).resolve().parent.parent
EXTERNAL, PAGE = ROOT / ".external", ROOT / "docs" / "tried-with.md"
PROGRAMS: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KIT = str(Path(named).expanduser().absolute()) if (named := os.environ.get("VLMEVALKIT", "")) else ""
INSTALLED = "installed.json"
WORKERS = "2"
VERSIONS = """
import importlib.metadata as metadata, sys
for name in sys.argv[1:]:
    try: print(name, metadata.version(name))
    except metadata.PackageNotFoundError: pass
"""


def python(name: str) -> str:
    return str(EXTERNAL / name / "bin" / "python") if PROGRAMS[name]["packages"] else sys.executable


def runs(interpreter: str, code: str = "") -> bool:
    return bool(interpreter) and not subprocess.run([interpreter, "-c", code], capture_output=True).returncode


def install(name: str, before: Future[None] | None) -> None:
    """Make the environment of a program, unless it is there with the same packages."""
    program, folder = PROGRAMS[name], EXTERNAL / name
    packages = [package.format(kit=KIT) for package in program["packages"]]
    if before is not None:
        before.result()
    done, wanted = (
        folder / INSTALLED,
        {key: program.get(key) for key in ("on", "bare", "newer")} | {"packages": packages},
    )
    if not packages or (done.is_file() and json.loads(done.read_text())["of"] == wanted):
        return
    begun = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    starts = [start for start in program.get("pythons", ()) if runs(shutil.which(start) or "")]
    subprocess.run([(starts or [sys.executable])[0], "-m", "venv", str(folder)], check=True)
    if "on" in program:
        own, seen = (next((EXTERNAL / one / "lib").glob("python*/site-packages")) for one in (name, program["on"]))
        (own / "seen.pth").write_text(f"{seen}\n")  # pip takes what lies there for installed
    pip = [python(name), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    if "bare" in program:
        subprocess.run([*pip, "--no-deps", *program["bare"]], check=True)
    if "newer" in program and runs(python(name), "import sys; sys.exit(sys.version_info < (3, 12))"):
        subprocess.run([*pip, *program["newer"]], check=True)
    minutes = (time.monotonic() - begun) / 60
    done.write_text(json.dumps({"of": wanted, "minutes": round(minutes, 1)}))
    print(f"{name}: installed in {minutes:.1f} minutes", flush=True)


def tested(name: str, installed: Future[None]) -> tuple[int, list[ElementTree.Element]]:
    """Run the tests of a program once it is installed; return pytest's status and the test cases."""
    installed.result()
    program, results, log = PROGRAMS[name], EXTERNAL / f"{name}.xml", EXTERNAL / f"{name}.log"
    named = {program["variable"]: str(EXTERNAL / name / program["file"])} if "variable" in program else {}
    if name == "vlmevalkit":
        named["SNELLEN_TEST_KIT"] = KIT
    command = [sys.executable, "-m", "pytest", "-n", WORKERS, f"--junitxml={results}", "--durations=10"]
    command += [*(("-k", program["only"]) if "only" in program else ()), *program["tests"]]
    with log.open("wb") as file:
        status = subprocess.run(command, cwd=ROOT, env=os.environ | named, stdout=file, stderr=file).returncode
    print(f"{name}: {log.read_text('utf-8', 'replace').splitlines()[-1]}; {log.relative_to(ROOT)}", flush=True)
    return status, list(ElementTree.parse(results).iter("testcase"))  # noqa: S314 - pytest's own file


def versions(name: str) -> str:
    done = subprocess.run([python(name), "-c", VERSIONS, *PROGRAMS[name]["shown"]], capture_output=True, text=True)
    listed = done.stdout.splitlines()
    if name == "vlmevalkit":
        listed.insert(0, f"VLMEvalKit {vlmevalkit.version(HarnessSettings(model='', home=Path(KIT)))}")
    minutes = json.loads((EXTERNAL / name / INSTALLED).read_text())["minutes"] if PROGRAMS[name]["packages"] else 0
    return ", ".join(listed) + (f"; installed in {minutes:.1f} minutes" if minutes else "")


def main(wanted: list[str]) -> int:
    begun = time.monotonic()
    below = {PROGRAMS[name].get("on", "") for name in wanted}
    names = [name for name in PROGRAMS if name in {*(wanted or PROGRAMS), *below} and (name != "vlmevalkit" or KIT)]
    EXTERNAL.mkdir(exist_ok=True)
    installed: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(2 * len(PROGRAMS)) as pool:
        for name in names:
            installed[name] = pool.submit(install, name, installed.get(PROGRAMS[name].get("on", "")))
        running = {name: pool.submit(tested, name, installed[name]) for name in names if PROGRAMS[name]["tests"]}
    ended = {name: future.result() for name, future in running.items()}
    minutes = (time.monotonic() - begun) / 60
    if not wanted:
        cases = {name: found for name, (_, found) in ended.items()}
        PAGE.write_text(page(PROGRAMS, {name: versions(name) for name in names}, cases, minutes), encoding="utf-8")
    print(f"{minutes:.1f} minutes{'' if wanted else f', written to {PAGE.relative_to(ROOT)}'}")
    return max(status for status, _ in ended.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
