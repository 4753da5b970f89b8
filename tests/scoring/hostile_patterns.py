"""Replies that make a careless reader slow: a run of one piece between a head and a tail.

Backtracking depends on how a match begins and why it fails at the end, so most runs stand alone and between pieces too.
"""

from __future__ import annotations

from typing import NamedTuple


class Pattern(NamedTuple):
    """A reply that is `head`, then `piece` again and again, then `tail`."""

    piece: str
    head: str = ""
    tail: str = ""

    def of(self, characters: int) -> str:
        """The reply of about this many characters."""
        times = (characters - len(self.head) - len(self.tail)) // len(self.piece)
        return self.head + self.piece * times + self.tail


_SIGNS = ".,;:!?-_*#~`'\"|/\\=+$%^&@"
_BRACKETS = ["(", ")", "[", "]", "{", "}", "<", ">", "()", "[](", "{}", "<>", "((a", "({["]
_SPACES = [" ", "\n", "\t", "\r\n", " \n", "\n  ", "\u00a0", "\u3000", "\u200b", "\ufeff"]
_WORDS = ["a", "A", "B ", "A B C D ", "word ", "1", "1 ", "1,", "1.5 ", "1/", "1-", "12 345 ", "twenty ", "one ", "a hundred and ", "not ", "no, ", "don't ", "answer is ", "the answer is ", "Answer: A ", "Answer:", "option ", "option B or ", "so ", "wait, ", "although ", "either ", "the ", "it is a ", "is the ", "it is, likely, ", "of the ", "in ", "because ", "similar to ", "red kite ", "A. golden eagle\n", "B: no\n", "1. bird\n", "i.e., ", "e.g. ", "... or ", "move_up: ", "MY_ANSWER: T ", "golden", "The answer is B. ", "It looks like a red kite, but it is not. ", "There are 3 birds. ", "make: a, model: b; ", "at least ", "between 1 and ", "5 ft ", "a of "]  # fmt: skip
_MARKUP = ["<b>", "<b", "</b>", "< ", "<answer>", "<answer", "</answer>", "<answer>B", "< answer ", "<think>", "</think>", "<think", "<|a|>", "<|", "<br/>", "**", "**B** ", "__", "_a", "```", "```\n", "~~~\n", "# ", "# a\n", "> ", "- ", "* ", "| a | b |\n", "|---", "--- ", "---\n", "[x](", "[x](y) ", "![", "``", "\\boxed{", "\\boxed{B} ", "boxed{", "\\text{", "\\frac{", "\\frac{1}{2}", "10^{", "10^3 ", "\\(", "\\\\", "$1$ ", "{,}"]  # fmt: skip
_JSON = ['{"', '{"answer":', '{"answer": "B"}', '{"a":[', '{"a": 1}, ', "{'answer': 'B', ", '"answer": "B", ', '{"answer": "', '"', "[1, ", "[[", '\\"', "{}, ", '{"a":"{', "```json\n{", '#### {"answer": 1}\n', "<answer>\\boxed{1}</answer>"]  # fmt: skip
_UNICODE = ["是", "不", "答案", "选", "三", "第二", "不是", "。", "，", "（", "Ａ", "é", "e\u0301", "\u0301", "👍", "👨\u200d👩\u200d👧", "½", "²", "→", "✓", "א", "\ud800", "ß", "İ", "٣", "—", "…", "的 "]  # fmt: skip

ALONE = [Pattern(piece) for group in (_SIGNS, _BRACKETS, _SPACES, _WORDS, _MARKUP, _JSON, _UNICODE) for piece in group]
BETWEEN = [
    Pattern(" ", "x", "y"),
    Pattern(" ", "The answer is", "!"),
    Pattern("the answer is (", "", "B)"),
    Pattern("(a)", "The bird is", "a red kite"),
    Pattern(" ", "answer", "x"),
    Pattern(" ", "<answer>", "B"),
    Pattern(" ", "<answer", "!"),
    Pattern(" ", "<", "answer"),
    Pattern(" ", "B", "</answer"),
    Pattern(" ", "```\n", "x"),
    Pattern("\n", "A", "?"),
    Pattern("\n", "```\n{", "\n``"),
    Pattern(".", "A", "or"),
    Pattern(".", "The answer is B", "x"),
    Pattern("*", "The answer is ", "B"),
    Pattern("*", "answer is ", "x"),
    Pattern("-", "--", "x"),
    Pattern("- ", "x\n", "!"),
    Pattern("=", "1 ", "x"),
    Pattern("#", "\n", " x"),
    Pattern("# ", "", "answer)\n  "),
    Pattern("1", "", "x"),
    Pattern("1", "-", "."),
    Pattern("1", '{"answer": ', "}"),
    Pattern("9", "Score: ", "!"),
    Pattern("1,", "The answer is ", "x"),
    Pattern(" 123", "1", "x"),
    Pattern("a ", "It is ", "?"),
    Pattern("a ", "The ", " is not"),
    Pattern("a", "The ", " is a red kite"),
    Pattern("-a", "the ", " looks"),
    Pattern("very ", "It is a ", "kite,"),
    Pattern(", likely", "It is", ", not"),
    Pattern("that ", "known as ", "!"),
    Pattern("x", "<answer ", "</answer>"),
    Pattern("B", "<answer>", "</answe"),
    Pattern("<think>", "", "</think>B"),
    Pattern("word ", "<think>", ""),
    Pattern("word ", "<think>", "</think>The answer is B."),
    Pattern("word ", '{"answer": "', '"}'),
    Pattern('{"a":', "", "1" + "}" * 400),
    Pattern("[", '{"answer": ', "]"),
    Pattern("\\n", '{"answer": "', '"}'),
    Pattern("A ", "(", ")"),
    Pattern("A", "\\boxed{", "}"),
    Pattern("{", "\\boxed", "B" + "}" * 300),
    Pattern("}", "\\boxed{B", ""),
    Pattern("golden eagle ", "It is not a ", "but a red kite"),
    Pattern("everything ", "", "but B"),
    Pattern("all other options ", "", "except"),
    Pattern("all but ", "", "wrong"),
    Pattern("hundred ", "one ", "and"),
    Pattern("是", "这", "，不"),
    Pattern("中", "图", "。"),
    Pattern("'", "it", "s"),
    Pattern('"', "yes", "or no"),
    Pattern("yes or no ", "", "?"),
    Pattern("\u0315\u0300", "e", ""),
    Pattern("\ufdfa"),
    Pattern("true/", "", "false"),
    Pattern("move_", "", ": 1"),
    Pattern("a_b: 1,", "", "x"),
    Pattern("_", "a", ": 1"),
    Pattern("image 1, ", "In ", "there are 2 birds"),
]
PATTERNS = [*ALONE, *BETWEEN]
