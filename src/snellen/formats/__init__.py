"""Other people's answer and result files: which harness wrote them, and what they hold.

`open_answers` tells the file's form and gives its rows; `final` gives each question once.
"""

from snellen.formats.base import Answer, AnswerFile, Problems, Survey, final, survey
from snellen.formats.detect import open_answers, read_answers

__all__ = ["Answer", "AnswerFile", "Problems", "Survey", "final", "open_answers", "read_answers", "survey"]
