"""Answer and result files of other programs: detection of the harness, and their rows.

`open_answers` detects the format and yields rows; `final` yields each question once.
"""

from snellen.formats.base import Answer, AnswerFile, AnswerSurvey, Problems, final, survey
from snellen.formats.detect import open_answers, read_answers

__all__ = ["Answer", "AnswerFile", "AnswerSurvey", "Problems", "final", "open_answers", "read_answers", "survey"]
