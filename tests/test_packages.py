"""What is published: the wheel and the sdist hold what they must and no more, and say the same as the other recipes."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import snellen

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MB = 1_000_000
NAME = f"snellen-{snellen.__version__}"
INFO = f"{NAME}.dist-info"
SOURCES = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "src" / "snellen").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
PAGES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
"""Pages of the documentation, which `snellen --help PAGE` prints."""
NEEDED = (
    "snellen/py.typed",
    "snellen/models/embedded/weights/model.safetensors",
    "snellen/benchmarks/chart/digits.png",
    "snellen/benchmarks/table/catalogue/*.toml",
    "snellen/benchmarks/sets/*.toml",
    "snellen/reports/assets/*.jinja",
    "snellen/viewer/templates/*.jinja",
    "snellen/viewer/assets/*.css",
    f"{INFO}/licenses/LICENSE",
    f"{INFO}/licenses/NOTICE",
    f"{INFO}/entry_points.txt",
)
CONDA_NAMES = {"duckdb": "python-duckdb", "matplotlib": "matplotlib-base"}
"""Packages that conda-forge names otherwise."""


def build(source: Path, out: Path, repository: str = "") -> tuple[Path, Path]:
    """Build an sdist and a wheel as the release does; return their paths."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(out)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1800000000", "SNELLEN_REPOSITORY": repository},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return out / f"{NAME}.tar.gz", out / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"{INFO}/METADATA"))


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = {entry.filename for entry in archive.infolist() if not entry.is_dir()}
    assert {f"src/{name}" for name in names if not name.startswith(INFO)} == SOURCES | {
        f"src/snellen/{page}" for page in PAGES
    }
    assert {name.partition("/")[0] for name in names} == {"snellen", INFO}
    assert not [wanted for wanted in NEEDED if not fnmatch.filter(names, wanted)]
    assert not [name for name in names if re.search(r"(^|/)(tests?|bench|conftest\.py|test_[^/]*\.py)(/|$)", name)]
    assert built[1].stat().st_size < 12 * MB


def test_the_sdist_holds_what_a_wheel_is_built_from(built):
    with tarfile.open(built[0]) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    top = {"PKG-INFO", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE", ".gitignore"}
    assert names == SOURCES | PAGES | top
    assert built[0].stat().st_size < 12 * MB


def test_two_builds_are_equal_and_one_of_the_unpacked_sdist_is_too(built, tmp_path):
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build(ROOT, tmp_path / "again")
    unpacked = build(tmp_path / NAME, tmp_path / "unpacked")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]
    assert unpacked[1].read_bytes() == built[1].read_bytes()


def test_the_metadata_name_versions_licence_and_no_address_that_is_not_known(built):
    metadata = metadata_of(built[1])
    assert (metadata["Name"], metadata["Version"]) == ("snellen", snellen.__version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    classifiers = metadata.get_all("Classifier")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(classifiers)
    assert metadata.get_all("Project-URL") is None and len(metadata["Keywords"].split(",")) >= 6
    required = [Requirement(entry) for entry in metadata.get_all("Requires-Dist") if "extra ==" not in entry]
    assert {canonicalize_name(entry.name) for entry in required} == {
        canonicalize_name(Requirement(entry).name) for entry in PROJECT["dependencies"]
    }


def test_the_address_of_the_repository_makes_links_whole(tmp_path):
    metadata = metadata_of(build(ROOT, tmp_path, "https://example.org/owner/snellen")[1])
    assert "Source, https://example.org/owner/snellen" in metadata.get_all("Project-URL")
    tag = f"v{snellen.__version__}"
    text = metadata.get_payload()
    assert f"](https://example.org/owner/snellen/raw/{tag}/docs/images/report.png)" in text
    assert f"](https://example.org/owner/snellen/blob/{tag}/docs/install.md)" in text
    assert not re.search(r"\]\((?!https?:|#)", text)


@pytest.mark.parametrize("address", ["javascript:alert(1)", "http://example.org/a/b", "https://example.org/a b"])
def test_what_is_no_address_of_a_repository_is_refused(tmp_path, address):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        build(ROOT, tmp_path, address)
    assert b"expected https://HOST/OWNER/NAME" in refused.value.stderr


def test_the_recipe_of_conda_requires_what_the_package_requires():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    run = [line for line in recipe["requirements"]["run"] if not line.startswith("python ")]
    required = []
    for entry in map(Requirement, PROJECT["dependencies"]):
        specifier = ",".join(sorted(map(str, entry.specifier), reverse=True))
        required.append(f"{CONDA_NAMES.get(entry.name, entry.name)} {specifier}")
    assert run == required
    assert recipe["context"]["version"] == snellen.__version__
    assert recipe["build"]["python"]["entry_points"] == [f"snellen = {PROJECT['scripts']['snellen']}"]
    about = recipe["about"]
    assert (about["license"], about["license_file"]) == (PROJECT["license"], PROJECT["license-files"])


def test_the_citation_names_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (snellen.__version__, PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"] == [{"name": "Snellen contributors"}]
