"""Balance of gold answers over the data."""

from __future__ import annotations

from checked_rows import by_code, checked, row

from snellen.runs.check.finding import CheckedRow

BIRDS = ("lark", "wren", "crow", "gull")


def choices(letters: str, options: tuple[str, ...] = BIRDS, first: int = 1) -> list[CheckedRow]:
    return [row(number, options=options, answer=letter) for number, letter in enumerate(letters, first)]


def test_balanced_letters_are_no_finding() -> None:
    assert by_code(checked(choices("ABCD" * 25))) == {}


def test_unbalanced_letters_name_the_reply_that_always_scores() -> None:
    result = checked(choices("A" * 60 + "B" * 20 + "C" * 10 + "D" * 10))
    finding = by_code(result)["unbalanced-answers"]
    assert finding.level == "warning"
    assert "A 60%, B 20%, C 10%, D 10%" in finding.message
    assert "always says A scores 60%, chance is 25%" in finding.message
    assert "chi-square 68.0" in finding.message
    assert [(share.answer, share.count, share.expected) for share in result.answers] == [
        ("A", 60, 25.0),
        ("B", 20, 25.0),
        ("C", 10, 25.0),
        ("D", 10, 25.0),
    ]


def test_a_significant_imbalance_without_gain_is_no_finding() -> None:
    assert by_code(checked(choices("A" * 5500 + "B" * 5000 + "C" * 5000 + "D" * 4500))) == {}


def test_rows_with_fewer_options_are_expected_to_have_fewer_answers() -> None:
    pairs = choices("AB" * 50, BIRDS[:2])
    mixed = checked([*pairs, *choices("ABCD" * 25, first=101)])
    assert by_code(mixed) == {}
    assert [(share.answer, share.count) for share in mixed.answers] == [("A", 75), ("B", 75), ("C", 25), ("D", 25)]
    assert mixed.chance == 0.375


def test_a_first_option_that_is_always_right_is_a_warning_of_its_own() -> None:
    assert set(by_code(checked(choices("A" * 20)))) == {"always-first"}
    assert by_code(checked(choices("A" * 19))) == {}
    assert "100 %" in by_code(checked(choices("A" * 20)))["always-first"].message


def test_shuffled_options_are_said_to_be_shuffled() -> None:
    finding = by_code(checked(choices("ABCD" * 10), shuffled=True))["always-first"]
    assert "shuffled" in finding.message


def test_an_answer_that_never_changes_is_a_warning() -> None:
    assert "always C" in by_code(checked(choices("C" * 30)))["constant-answer"].message
    truths = [row(number, answer=True, kind="truth") for number in range(30)]
    assert "always yes" in by_code(checked(truths))["constant-answer"].message
    counts = [row(number, answer=3, kind="count") for number in range(30)]
    assert by_code(checked(counts))["constant-answer"].message.endswith(": 3")


def test_yes_and_no_are_compared_with_a_half() -> None:
    rows = [row(number, answer=number % 10 < 8, kind="truth") for number in range(100)]
    assert "yes 80%, no 20%" in by_code(checked(rows))["unbalanced-answers"].message
    assert checked(rows).chance == 0.5


def test_a_gold_option_that_is_mostly_the_longest_is_found() -> None:
    def of_lengths(number: int, longest: str) -> CheckedRow:
        options = [
            f"{name} with a long tail" if letter == longest else name
            for letter, name in zip("ABCD", BIRDS, strict=True)
        ]
        return row(number, options=options, answer="ABCD"[number % 4])

    giving = [of_lengths(number, "ABCD"[number % 4]) for number in range(40)]
    assert "100% of 40 rows" in by_code(checked(giving))["longest-option"].message
    hiding = [of_lengths(number, "ABCD"[number // 4 % 4]) for number in range(40)]
    assert "longest-option" not in by_code(checked(hiding))
