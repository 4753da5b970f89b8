"""Whatever a model says, every rule gives a score from 0 to 1 or says why it gives none."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.scorers import base, lmms_eval, vlmevalkit
from snellen.benchmarks.spatial.scorers.strict import strict
from snellen.types import Prompt, Sample, Score, Text

_PIECES = """<answer> </answer> </think> answer is Answer: A (B) c. [ ] ' 1e999 -0 twenty thousand hundred move_up: nan , { } ` ²
٣ 選"""
PIECES = st.sampled_from([*_PIECES.split(), "answer is", " ", "\n", "\u200b", "\x00"])
REPLIES = st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join), st.lists(PIECES, max_size=30).map(" ".join))


def by_letter(reader: Callable[[str], str | None]) -> Callable[[str, str], Score]:
    return lambda reply, gold: base.score_letter(reader(reply), gold)


RULES: dict[str, Callable[[str, str], Score]] = {
    "vsi letters": lambda reply, gold: lmms_eval.vsi(reply, gold, "route_planning"),
    "vsi numbers": lambda reply, gold: lmms_eval.vsi(reply, gold, "object_counting"),
    "vsi numbers of the kit": lambda reply, gold: vlmevalkit.vsi(reply, gold, "object_counting"),
    "option matcher": vlmevalkit.score_option,
    "mmsi": by_letter(lmms_eval.mmsi_letter),
    "mindcube": by_letter(lmms_eval.mindcube_letter),
    "viewspatial": lmms_eval.score_viewspatial,
    "site": lambda reply, gold: lmms_eval.site(reply, gold, 6),
    "blink": lmms_eval.score_blink,
    "choices of the kit": lambda reply, gold: vlmevalkit.score_choice(reply, {"A": "left", "B": ""}, gold),
    "embspatial": by_letter(lmms_eval.leading_letter),
    "omnispatial": lmms_eval.score_omnispatial,
    "3dsrbench": by_letter(lmms_eval.three_dsr_letter),
    "mmsi video": lmms_eval.score_mmsi_video,
    "spar letters": lambda reply, gold: lmms_eval.spar(reply, gold, "position_matching"),
    "spar numbers": lambda reply, gold: lmms_eval.spar(reply, gold, "depth_prediction_oc_mv"),
    "spar views": lambda reply, gold: lmms_eval.spar(reply, gold, "view_change_infer"),
    "spar views of the kit": lambda reply, gold: vlmevalkit.spar(reply, gold, "view_change_infer"),
}


@pytest.mark.parametrize("name", RULES)
@given(reply=REPLIES, gold=st.one_of(REPLIES, st.sampled_from(["A", "0", "-2.5", "move_up:0", "nan"])))
@example(reply="[" * 5000 + "]" * 5000, gold="1")
@example(reply="hundred " * 200, gold="1")
@example(reply="1" * 5000, gold="2")
@example(reply="[" + "1" * 5000 + "]", gold="2")
def test_every_reply_gets_a_score_or_a_reason(name: str, reply: str, gold: str) -> None:
    score = RULES[name](reply, gold)
    assert (score.value is None and score.reason) or 0 <= (score.value or 0) <= 1
    msgspec.json.encode(score)


@given(lengths=st.lists(st.integers(1, 400), min_size=1, max_size=60))
def test_frames_lie_within_their_segments_and_in_order(lengths: list[int]) -> None:
    for rule in (frames.mmsi_video_lmms_eval, frames.mmsi_video_vlmevalkit):
        chosen = rule(lengths)
        assert len(chosen) == len(lengths)
        for found, length in zip(chosen, lengths, strict=True):
            assert found == sorted(set(found))
            assert all(0 <= frame < length for frame in found)
    assert sum(map(len, frames.mmsi_video_vlmevalkit(lengths))) <= 50


@given(reply=REPLIES, kind=st.sampled_from(["number", "choice", "open"]))
@example(reply="1e999", kind="number")
@example(reply="1 x 10^99 and 1e300 million", kind="number")
def test_the_careful_rule_has_a_score_or_a_reason_for_every_reply(reply: str, kind: str) -> None:
    sample = Sample("1", Prompt((Text("How many?"),)), 5.0 if kind == "number" else "A", kind, meta={"gold": "5"})
    score = strict(sample, reply)
    assert (score.value is not None and 0.0 <= score.value <= 1.0) or score.reason
    if reply == "1e999":
        assert (score.verdict, score.value) == ("invalid", 0.0), "no number of this world"
