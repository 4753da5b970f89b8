"""Names of columns by role, compared without case and punctuation."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct


class RoleNames(Struct, frozen=True):
    """Names of columns that may have a role: `strong` ones, and `weak` ones that count only if there is no strong one."""

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()


IMAGE_IDS = ("imageid", "imgid", "imageids", "imgids")
"""Names of images without their ending, where no other column has images."""
NAMES: Mapping[str, RoleNames] = {
    "id": RoleNames(
        ("id", "index", "questionid", "qid", "sampleid", "uid", "uuid", "idx", "key", "exampleid", "itemid", "dataid")
    ),
    "image": RoleNames(
        (
            *("image", "images", "img", "imgs", "imagepath", "imagepaths", "imgpath", "imagefile", "imagefiles"),
            *(
                "imagename",
                "imagenames",
                "picture",
                "pictures",
                "pic",
                "photo",
                "photos",
                "decodedimage",
                "imagebase64",
            ),
            *(
                "filename",
                "filenames",
                "imagelist",
                "imageurl",
                "imageurls",
                "imagebytes",
                "base64",
                "visual",
                "figure",
            ),
        ),
        ("file", "path", "filepath", "url", "media", *IMAGE_IDS),
    ),
    "video": RoleNames(("video", "videos", "videopath", "videofile", "videoname", "clip", "clippath", "mp4")),
    "question": RoleNames(
        (
            *("question", "questions", "prompt", "query", "questiontext", "q", "textquestion"),
            "conversationsquestion",
        ),
        ("text", "instruction", "input", "problem", "request", "message", "task", "statement", "caption", "sentence"),
    ),
    "options": RoleNames(
        (
            *("options", "choices", "candidates", "answerchoices", "answeroptions", "multiplechoices", "opts"),
            *(
                "allchoices",
                "mcoptions",
                "choice",
                "option",
                "alternatives",
                "possibleanswers",
                "answercandidates",
                "multiplechoiceoptions",
                "optionlist",
            ),
        )
    ),
    "answer": RoleNames(
        (
            *("answer", "answers", "label", "labels", "gt", "groundtruth", "gtanswer", "target", "gold", "goldanswer"),
            *("correct", "correctanswer", "answerkey", "correctoption", "correctchoice", "correctindex", "correctidx"),
            *("answerindex", "answeridx", "labelindex", "labelidx", "gtindex", "answerletter", "correctletter"),
            *("multiplechoiceanswer", "answertext", "goldlabel", "goldindex", "groundtruthanswer", "answerlabel"),
            *("rightanswer", "answerid", "correctanswerindex", "correctchoiceidx", "conversationsanswer"),
        ),
        ("output", "solution", "reference", "class", "classname", "response", "a"),
    ),
    "hint": RoleNames(("hint", "hints")),
    "rubric": RoleNames(("rubric", "rubrics", "criteria", "gradingcriteria", "scoringcriteria")),
    "category": RoleNames(
        (
            *("category", "topic", "type", "split", "subject", "l2category", "l3category", "subcategory", "task"),
            *("tasktype", "skill", "difficulty", "level", "dataset", "source", "ability", "questiontype", "qtype"),
            *("answertype", "domain", "lang", "language", "group", "subtask", "field", "subfield", "attribute", "kind"),
            *("imagetype", "contexttype", "grade", "tasktypes", "capability", "dimension", "subset"),
        )
    ),
}


def plain_name(column: str) -> str:
    """Return a column's name without case and punctuation."""
    return re.sub(r"[\W_]+", "", column.lower())
