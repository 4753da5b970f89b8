"""Questions kept beside another harness's answers: data like any other, but for what was shown."""

from __future__ import annotations

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.sources.carried import NAME, CarriedHead, CarriedQuestion, encode
from snellen.errors import DataError
from snellen.types import Image


def question(at: int) -> SpatialQuestion:
    groups = {"category": "counting & existence"}
    return SpatialQuestion(str(at), "How many?", "A", "choice", options={"A": "one", "B": "two"}, groups=groups, row=at)


@pytest.fixture
def site(tmp_path):
    head = CarriedHead("site", "lmms-eval 0.7.3", {"video": 2})
    rows = [
        CarriedQuestion(question(0), "image"),
        CarriedQuestion(question(1), "image"),
        CarriedQuestion(question(0), "video"),
    ]
    path = tmp_path / NAME
    path.write_bytes(b"".join(encode(head, rows)))
    return Data(path=path)


def test_each_half_of_site_finds_its_questions(site):
    ids = [sample.id for sample in registry.find("site").samples(site)]
    assert ids[:3] == ["image/0", "image/1", "video/0"]
    assert [sample.id for sample in registry.find("site/image").samples(site)] == ["0", "1"]


def test_questions_without_an_answer_are_counted(site):
    benchmark = registry.find("site")
    assert benchmark.size(site) == 5
    assert len(list(benchmark.samples(site))) == 5
    assert any("left no answer to 2 questions" in line for line in benchmark.notices(site))


def test_nothing_of_what_was_shown_is_there_and_asking_says_so(site):
    sample = next(iter(registry.find("site").samples(site)))
    (image,) = [part for part in sample.prompt.parts if isinstance(part, Image)]
    with pytest.raises(DataError, match="stayed with the harness"):
        image.blob.read()


def test_a_file_of_another_benchmark_or_none_is_refused(site, tmp_path):
    with pytest.raises(DataError, match="not of blink"):
        list(registry.find("blink").samples(site))
    path = tmp_path / "other" / NAME
    path.parent.mkdir()
    path.write_text('{"id": 1}\n')
    with pytest.raises(DataError, match="line 1"):
        list(registry.find("blink").samples(Data(path=path)))
    path.write_bytes(b"".join(encode(CarriedHead("blink", "x"), [])) + b'{"question": {}}\n')
    with pytest.raises(DataError, match="line 2"):
        list(registry.find("blink").samples(Data(path=path)))
