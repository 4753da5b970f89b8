"""Nothing that a user can meet is undocumented: commands, options, profiles, errors, exit statuses, dependencies."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import snellen
from snellen import errors, exit_signals
from snellen.benchmarks import registry
from snellen.cli import console as faults
from snellen.cli import results
from snellen.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_scripts"))
import cli_page  # noqa: E402


def classes(kind: type[errors.SnellenError]) -> list[type[errors.SnellenError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in classes(child))]


ALL = [one for one in classes(errors.SnellenError) if one.__module__.startswith("snellen.")]


def row(page: str, *cells: str) -> re.Pattern[str]:
    """A table row that begins with these cells."""
    return re.compile(r"^\| " + r" \| ".join(map(re.escape, cells)) + r" \|", re.M)


def test_the_page_of_commands_is_what_the_commands_say():
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert written == cli_page.page(), "run: python docs/_scripts/cli_page.py"


OPTION = re.compile(r"`(--?[A-Za-z][\w-]*)`")


def shown_options(section: str, page: str) -> set[str]:
    """The options that a section describes, and those that its line of shared options names, one by one or by a group."""
    shown = {name for line in section.splitlines() if line.startswith("| `") for name in OPTION.findall(cell(line))}
    for line in re.findall(r"^\[Shared\]\(#options-of-several-commands\): (.*)\.$", section, re.M):
        for part in line.split("; "):
            named, linked = set(OPTION.findall(part)), re.match(r"\[(\w+)\]\(#\1\)", part)
            shown |= shown_options(part_of(page, f"### {linked[1]}"), page) - named if linked else named
    return shown


def cell(line: str) -> str:
    return re.split(r"(?<!\\) \| ", line)[0]


def part_of(page: str, heading: str) -> str:
    return re.split(r"\n##+ ", page.split(f"{heading}\n")[1])[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for leaf, command in cli_page.leaves(name, cli_page.commands()[name]):
        section = part_of(text, f"# snellen {leaf}")
        taken = cli_page.taken_by(command)
        assert all(word.text for word in taken), leaf
        assert shown_options(section, text) == {one for word in taken if not word.argument for one in word.names}, leaf
        for word in taken:
            assert not word.argument or f"| `{word.names[0]}` |" in section.replace("\\|", "|"), word.names


def test_every_profile_of_every_benchmark_is_documented_with_its_own_words():
    documented: set[tuple[str, str, str]] = set()
    names = ""
    for line in (DOCS / "profiles.md").read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"\|(?: (.+?))? \| `([^`]+)` \| (.+) \|", line):
            names = found[1] or names  # an empty cell repeats the one above
            documented |= {(name.strip("` "), found[2], found[3]) for name in names.split(",")}
    for name in registry.BUILT_IN:
        benchmark = registry.find(name)
        assert set(benchmark.profiles) == set(benchmark.score), name
        for profile, words in benchmark.profiles.items():
            assert (name, profile, words) in documented
    for family in registry.FAMILIES:
        for name in (one for one in registry.names() if one.partition("/")[0] == family):
            benchmark = registry.find(name)
            assert set(benchmark.profiles) == set(benchmark.score), name
            for profile, words in benchmark.profiles.items():
                assert (f"and every `{family}/...", profile, words) in documented, name


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_documented_with_its_exit_status_or_kind(kind):
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    if issubclass(kind, errors.ModelError):
        again = "yes" if kind.retry else "no"
        assert row("errors.md", f"`{kind.kind}`", f"`{kind.__name__}`", kind.status, again).search(text)
    else:
        assert row("errors.md", f"`{kind.__name__}`", str(kind.exit_code)).search(text)


def statuses_of(tree: ast.AST) -> Iterator[int]:
    """The exit statuses that a file names: of an Exit that is raised, and of constants and properties that hold one."""
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "Exit",
            "SystemExit",
        ):
            values = node.args
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {
                getattr(target, "attr", getattr(target, "id", ""))
                for each in targets
                for target in getattr(each, "elts", [each])
            }
            if names & {"exit_code", "UNANSWERED", "UNEXPECTED", "BELOW", "WORSE", "INCOMPLETE", "FAULT"}:
                values = [node.value]
        for value in values:
            branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else getattr(value, "elts", [value])
            yield from (each.value for each in branches if isinstance(each, ast.Constant) and type(each.value) is int)


def test_the_table_of_exit_statuses_is_what_the_code_can_give():
    text = (DOCS / "errors.md").read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("\n## ")[0]
    documented = {int(status) for cell in re.findall(r"^\| ([\d, ]+) \|", text, re.M) for status in cell.split(", ")}
    files = [path for path in (ROOT / "src" / "snellen").rglob("*.py") if "viewer" not in path.parts]
    given = {0, *(status for path in files for status in statuses_of(ast.parse(path.read_text(encoding="utf-8"))))}
    given |= {128 + number for number in (signal.SIGINT, *exit_signals.ENDING)} - {128 + signal.SIGINT}
    given |= {results.UNANSWERED, faults.UNEXPECTED, *(kind.exit_code for kind in ALL)}
    assert given == documented
    assert (
        "snellen --help errors"
        in subprocess.run(
            [sys.executable, "-m", "snellen", "--help"], capture_output=True, text=True, timeout=600, check=True
        ).stdout
    )


def test_every_dependency_is_documented_with_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=;! ]", one)[0] for one in needed} - {"snellen"}
    text = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([\w-]+)` \|[^|]*\| \S[^|]+ \|$", text, re.M))
    assert names == documented


def test_every_page_is_in_the_navigation_and_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=6000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "cli.html").is_file()
    page = (tmp_path / "site" / "run.html").read_text(encoding="utf-8")
    assert 'rel="prev"' in page and 'rel="next"' in page and f"Snellen {snellen.__version__}" in page
    # The copy button skips lines of output: each line is an element, which the style sheet hides.
    assert '<span id="__span-0-1"><span class="gp">$ </span>' in page and "stylesheets/site.css" in page


def test_the_glossary_is_sorted_and_has_forty_terms_or_more():
    terms = re.findall(r"^([\w-][\w -]+)\n:   \S", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.M)
    assert len(terms) >= 40 and terms == sorted(terms)


def test_no_page_asks_a_reader_to_put_a_key_on_the_command_line():
    for page in [*DOCS.glob("*.md"), ROOT / "README.md"]:
        assert "--api-key " not in page.read_text(encoding="utf-8"), page


LOOKED_UP = ("catalogue", "changelog", "cli", "coverage", "declare", "declare-sets", "reproductions")
"""Pages that scripts write from the code, and the changelog: nobody reads them from the top to the end."""


@pytest.mark.parametrize("name", sorted(page.stem for page in DOCS.glob("*.md") if page.stem not in LOOKED_UP))
def test_a_page_is_read_in_ten_minutes(name):
    text = re.sub(r"^```.*?^```$", "", (DOCS / f"{name}.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(re.findall(r"\S*\w\S*", text)) <= 1500
