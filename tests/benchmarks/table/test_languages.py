"""Tables in ten languages: their headings, the language of their questions, and requests in it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table.benchmark import OPTIONS
from snellen.benchmarks.table.column_names import plain_name, role_names
from snellen.benchmarks.table.declaration import PromptStyle
from snellen.benchmarks.table.languages import OPTION, LanguageVotes, languages
from snellen.benchmarks.table.question import Question
from snellen.benchmarks.table.wording import question_text
from snellen.errors import UsageError
from snellen.types import Sample, Text

TABLES: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    "en": (("Question", "Answer"), "How many birds are in picture {}?", "3", "Answer with a number."),
    "de": (("Frage", "Richtige Antwort"), "Wie viele Vögel sind auf Bild {}?", "3", "Antworte mit einer Zahl."),
    "fr": (("Question", "Réponse"), "Combien d'oiseaux sont dans la figure {} ?", "3", "Réponds par un nombre."),
    "es": (("Pregunta", "Respuesta"), "¿Cuántos pájaros hay en la imagen {}?", "3", "Responde con un número."),
    "it": (("Domanda", "Risposta"), "Quanti uccelli ci sono nella figura {}?", "3", "Rispondi con un numero."),
    "pt": (("Pergunta", "Resposta"), "Quantos pássaros há na figura {}?", "3", "Responda com um número."),
    "zh": (("问题", "答案"), "图{}里有几只鸟？", "3", "请用数字回答。"),
    "ja": (("質問", "正解"), "図{}に鳥は何羽いますか?", "3", "数で答えてください。"),
    "ko": (("질문", "정답"), "그림 {}에 새가 몇 마리 있습니까?", "3", "숫자로 답하세요."),
    "ru": (("Вопрос", "Правильный ответ"), "Сколько птиц на рисунке {}?", "3", "Ответьте числом."),
}


def table(folder: Path, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    path = folder / "my.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def last_line(sample: Sample) -> str:
    return "".join(part.text for part in sample.prompt.parts if isinstance(part, Text)).rpartition("\n")[2]


@pytest.mark.parametrize("code", TABLES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_table_in_a_language_is_recognised_and_asked_in_it(code: str, form: str, tmp_path: Path) -> None:
    head, question, answer, request = TABLES[code]
    names = tuple(normalize(form, name).upper() for name in head)  # type: ignore[arg-type]
    name = table(tmp_path, names, [(question.format(number), answer) for number in range(4)])
    benchmark = registry.find(name)
    assert {last_line(sample) for sample in benchmark.samples(Data())} == {request}
    reading = benchmark.reading(Data())
    assert reading is not None and (f"in {languages()[code].name}" in reading.text) == (code != "en")
    english = Data(options={OPTION: "en"})
    assert {last_line(sample) for sample in benchmark.samples(english)} == {"Answer with a number."}
    if code != "en":
        assert benchmark.digest(Data()) != benchmark.digest(english)


def test_without_a_clear_majority_requests_are_english(tmp_path: Path) -> None:
    rows = [(TABLES[code][1].format(number), "3") for number in range(4) for code in ("de", "fr")]
    samples = registry.find(table(tmp_path, ("question", "answer"), rows)).samples(Data())
    assert {last_line(sample) for sample in samples} == {"Answer with a number."}


def test_an_unknown_language_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    name = table(tmp_path, ("question", "answer"), [("Which?", "x")])
    with pytest.raises(UsageError, match="--prompt-language xx: one of auto, en, de"):
        registry.find(name).reading(Data(options={OPTION: "xx"}))
    assert "auto" in OPTIONS[OPTION]


def test_every_language_has_the_requests_of_every_kind_in_its_own_words() -> None:
    english = languages()["en"]
    for code, language in languages().items():
        assert language.requests.keys() == english.requests.keys(), code
        assert code == "en" or not set(language.requests.values()) & set(english.requests.values())
        assert bool(language.words) != bool(language.script)


@pytest.mark.parametrize(
    ("kind", "answer", "asked"),
    [
        ("choice", "A", "A. x\nB. y\nAnswer with the letter."),
        ("truth", True, "Answer with yes or no."),
        ("count", 3, "Answer with a number."),
        ("number", 3.5, "Answer with a number."),
        ("short", "x", "Answer with a word or a short phrase."),
        ("text", "x", "Answer with a word or a short phrase."),
    ],
)
def test_english_requests_stay_as_recorded_runs_have_them(kind: str, answer: Any, asked: str) -> None:
    options = {"A": "x", "B": "y"} if kind == "choice" else {}
    question = Question("1", "row 1", 0, "Which?", answer, kind, options=options, hint="Look.")
    text = question_text(question, PromptStyle(), in_question=False, form="yes/no")
    assert text == f"Hint: Look.\nWhich?\n{asked}"


def test_a_quoted_word_does_not_change_the_language() -> None:
    votes = LanguageVotes()
    for question in ("Which word is 是?", "What does はい mean in the picture?"):
        votes.add(question)
    assert votes.decided() == "en"


def test_headings_name_one_role_each() -> None:
    roles = ("id", "image", "video", "question", "options", "answer", "hint")
    seen: dict[str, str] = {}
    for role in roles:
        for name in role_names()[role].strong:
            assert seen.setdefault(name, role) == role, name
        assert not set(role_names()[role].strong) & set(role_names()[role].weak)
    assert plain_name("Réponse_correcte") == plain_name("réponse correcte".upper())


def test_all_open_roles_are_named_at_once_with_the_likeliest_columns(tmp_path: Path) -> None:
    rows = [(f"p{n}7", f"Which bird is shown in picture {n}?", ("wren", "robin")[n % 2], "A note") for n in range(6)]
    with pytest.raises(UsageError) as error:
        registry.find(table(tmp_path, ("x", "y", "z", "w"), rows)).reading(Data())
    message = f"{error.value.message} {error.value.hint}"
    assert "3 roles have no column for certain" in message
    assert "--map question=y,answer=z,image=x" in message
    samples = list(registry.find(str(tmp_path / "my.csv")).samples(Data(options={"map": "question=y,answer=z"})))
    assert [sample.target for sample in samples[:2]] == ["wren", "robin"]


def test_letters_without_options_are_named_together_with_a_missing_question(tmp_path: Path) -> None:
    rows = [(f"Which is it {n}?", "ABCD"[n % 4], "red / green") for n in range(6)]
    with pytest.raises(UsageError) as error:
        registry.find(table(tmp_path, ("thing", "answer", "pool"), rows)).reading(Data())
    assert "question: no column could be the question. Likely: thing." in error.value.message
    assert "options: the answers in 'answer' are letters" in error.value.message
