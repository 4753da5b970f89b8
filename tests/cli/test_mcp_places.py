"""What a client of `snellen mcp` names lies in the allowed folders, or is refused, whatever the words are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks import registry
from snellen.cli.mcp.places import Places
from snellen.errors import SnellenError, UsageError

PARTS = st.sampled_from(["..", ".", "", "in", "out", "a.jsonl", "link", "~", "results", "-x", "hf:", "x:Y", "\0", "/"])
NAMES = st.one_of(st.text(max_size=20), st.lists(PARTS, max_size=6).map("/".join), PARTS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """in/ is allowed, out/ is not; in/ has a link to out/ and a file."""
    folder = tmp_path_factory.mktemp("places")
    for name in ("in/results", "out"):
        (folder / name).mkdir(parents=True)
    for name in ("in/a.jsonl", "out/a.jsonl"):
        (folder / name).write_text('{"question": "?", "answer": "cat"}\n')
    (folder / "in" / "link").symlink_to(folder / "out")
    return folder


@given(name=NAMES)
def test_a_name_is_inside_or_refused(root, name):
    places = Places(root / "in" / "results", [str(root / "in" / "a.jsonl"), str(root / "in" / "results")])
    for ask in (lambda: places.data(name, "data"), lambda: places.run(name), lambda: str(places.new_run(name))):
        try:
            inside = Path(ask()).resolve()
        except SnellenError as error:
            assert error.hint
        else:
            assert inside.is_relative_to((root / "in").resolve())


@given(name=NAMES)
def test_a_benchmark_is_a_known_name_or_a_file_inside(root, name):
    places = Places(root / "in" / "results", [str(root / "in")])
    try:
        named = places.benchmark(name)
    except SnellenError:
        return
    is_place = registry.is_path(named) or registry.is_code(named)
    assert not is_place or Path(named).resolve().is_relative_to((root / "in").resolve())


def test_a_link_in_a_folder_that_leads_outside_is_found_and_named(root):
    with pytest.raises(UsageError, match="link link leads outside"):
        Places(root / "in" / "results", [str(root / "in")]).data(".", "data")


def test_names_of_the_hub_are_those_that_the_user_allows(root):
    places = Places(root / "in" / "results", ["hf:owner/", "hf:one/set"])
    for name in ("hf:owner/name", "hf:one/set", "hf:one/set/task", "hf:one/set@main"):
        assert places.benchmark(name) == name
    assert places.benchmark("hf/one/set") == "hf:one/set"
    for name in ("hf:other/name", "hf:", "hf:one/set-of-others", "hf/other/name"):
        with pytest.raises(UsageError, match="not allowed"):
            places.benchmark(name)
    with pytest.raises(UsageError, match="there is nothing"):
        Places(root / "in" / "results", ["nowhere"])


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('hub = "other/private"', "not allowed"),
        ('csv = "http://127.0.0.1/x.csv"', "names the address"),
        ('file = "a.jsonl"\nmirrors = ["s3://lab/x.jsonl"]', "names the address"),
        ('file = "/etc/passwd"', "outside"),
        ('hub = "one/set"', ""),
        ('file = "a.jsonl"', ""),
    ],
)
def test_a_declaration_names_no_place_that_a_client_may_not_name(root, source, told):
    (root / "in" / "own.toml").write_text(f'name = "own"\n[source]\n{source}\n')
    places = Places(
        root / "in" / "results", [str(root / "in" / "own.toml"), str(root / "in" / "a.jsonl"), "hf:one/set"]
    )
    if told:
        with pytest.raises(UsageError, match=told):
            places.benchmark("own.toml")
    else:
        assert places.benchmark("own.toml").endswith("own.toml")
