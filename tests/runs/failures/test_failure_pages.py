"""The pages about failed answers, and their section of a report: readable, closed to the network, gold only when asked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import failing_runs as made
import pytest
from failing_runs import KEY, label, run
from msgspec import structs

from reports.opened_page import opened
from snellen import load_run
from snellen.cli import main
from snellen.engine.run_folder import RunFolder
from snellen.errors import UsageError
from snellen.models.trace import Step
from snellen.reports.failures import labels as tabled
from snellen.reports.failures import pages
from snellen.reports.failures.page import FailureView, render_answer
from snellen.reports.plots.base import SERIES
from snellen.reports.views import LabelCounts
from snellen.runs.answer_view import AnswerView
from snellen.runs.failures import labels as failure_labels

PLANTED = (b"zyxgold", b"qwvalias", b"zyxlabel")


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made.settle(monkeypatch, tmp_path)


def page_of(sample: str, folder: str = "site", run: str = "run") -> str:
    return Path(folder, "pages", pages.file_name(run, sample, 0)).read_text("utf-8")


def test_a_page_shows_picture_question_answer_trace_evidence_verdict_and_labels():
    run("run")
    label("--pages", "site")
    assert len(list(Path("site/pages").iterdir())) == 6
    page = page_of("s000")
    for words in (
        'src="data:image/png;base64,', "What is this? &lt;q0&gt;", "Falcon Nine", "web_search", '&#34;query&#34;: &#34;falcon&#34;',
        "The Falcon Nine is a thing of that shape.", "https://example.org/0", "in the trace", "<b>incorrect</b>",
        "the reference is [gold withheld]", "<b>wrong entity retrieved</b>", "by rule", "it is the [gold withheld], seen as another",
    ):  # fmt: skip
        assert words in page, words
    assert "not in the trace" in page_of("s001")
    assert "<b>correct</b>" in page_of("s004") and "<dt>label</dt>" not in page_of("s004")
    index = Path("site/index.html").read_text("utf-8")
    assert all(f'href="pages/{path.name}"' in index for path in Path("site/pages").iterdir())


def test_gold_is_on_no_page_unless_it_is_asked_for():
    run("run")
    label("--pages", "site")
    for planted in PLANTED:
        assert planted not in made.text_of("site"), planted
    assert main(["failures", "run", "--pages", "site", "--show-gold"]) == 0
    assert "Zyxgold 2 Mark II | Qwvalias-2" in page_of("s002") and "this is the Zyxgold 2 Mark II" in page_of("s002")


def test_no_key_that_a_page_or_a_reply_quotes_is_on_a_page():
    run("run")
    folder = RunFolder("run")
    text = folder.results.read_text("utf-8").replace("by its shape", f"by {KEY}")  # as if written by something else
    folder.results.write_text(re.sub(r',"seq":\d+,"crc32":"\w+"}', "}", text), "utf-8")
    for shard in folder.traces.glob("*.jsonl"):
        shard.write_text(shard.read_text("utf-8").replace("[redacted]", KEY), "utf-8")
    assert main(["failures", "run", "--pages", "site"]) == 0
    found = made.text_of("site")
    assert KEY.encode() not in found and b"[redacted]" in found and b"key-of-the" not in found


def test_after_the_data_moved_away_pages_say_so_and_hold_back_what_may_be_gold():
    run("run")
    label()
    Path("fika.zip").rename("elsewhere.zip")
    assert main(["failures", "run", "--pages", "site"]) == 0
    page = page_of("s002")
    assert (
        "Question and image cannot be shown: the data set is no longer at its recorded location." in page
        and "Ibis Two" in page
    )
    assert (
        "evidence ignored" in page and "[withheld:" in page and "What is this?" in page
    )  # the trace knows the question
    for planted in PLANTED:
        assert planted not in made.text_of("site"), planted
    assert main(["failures", "run", "--pages", "site", "--show-gold"]) == 0
    assert "this is the Zyxgold 2 Mark II" in page_of("s002")
    assert main(["failures", "run", "--pages", "site", "--data", "elsewhere.zip"]) == 0
    assert 'src="data:image/png;base64,' in page_of("s002")


def test_a_run_without_data_and_without_labels_is_refused_and_writes_nothing(capsys):
    run("run")
    Path("fika.zip").unlink()
    capsys.readouterr()
    assert main(["failures", "run", "--pages", "site"]) != 0
    assert "fika.zip" in capsys.readouterr().err and not Path("site").exists()


def test_a_folder_with_other_files_is_left_alone_and_pages_of_answers_that_are_gone_are_removed():
    run("run")
    Path("mine").mkdir()
    Path("mine/index.html").write_text("<p>my own</p>")
    told = pages.LabelledRun(load_run("run"), *[list(failure_labels.label_run(load_run("run")))], LabelCounts(5, {}))
    with pytest.raises(UsageError, match=r"it holds index\.html, which this command did not write"):
        pages.write_pages([told], "mine")
    assert Path("mine/index.html").read_text() == "<p>my own</p>"
    pages.write_pages([told], "site")
    gone = Path("site/pages/gone-000000000000.html")
    gone.write_text(page_of("s000"))
    pages.write_pages([told], "site")
    assert not gone.exists() and len(list(Path("site/pages").iterdir())) == 6
    Path("site/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"it holds notes\.txt"):
        pages.write_pages([told], "site")


def view(*steps: Step, **more: object) -> FailureView:
    answer = AnswerView("s1", "short", (), {}, reply=made.HOSTILE)
    return structs.replace(FailureView("a.html", "run", "m", 1, answer, "wrong", steps=steps), **more)


def test_a_huge_trace_makes_a_page_of_bounded_size_that_says_what_it_leaves_out():
    steps = [
        Step(n, "tool", tool="t" * 5_000, arguments={"x" * 50_000: "y" * 50_000}, result="z" * 3_000_000)
        for n in range(150)
    ]
    page = render_answer(view(*steps, *[Step(200, "assistant", "last")] * 300))
    assert len(page) < 1_200_000
    assert "texts and steps are omitted" in page and "3,000,000 characters" in page


def test_hostile_text_stays_text_on_every_place_of_a_page():
    step = Step(
        1,
        "tool",
        tool=made.HOSTILE,
        arguments={made.HOSTILE: [made.HOSTILE]},
        result=made.HOSTILE,
        images=(made.HOSTILE,),
    )
    page = render_answer(
        view(
            step, Step(1, "assistant", made.HOSTILE), extracted=made.HOSTILE, reason=made.HOSTILE, label="format", judge="format",
            rule="format", judge_reason=made.HOSTILE, people=[(made.HOSTILE, "format", made.HOSTILE)], model=made.HOSTILE,
            run=made.HOSTILE, notes=[made.HOSTILE], question=made.HOSTILE, verdict=made.HOSTILE,
        )
    )  # fmt: skip
    assert "<script" not in page and "<img src=x" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page) and "⟦U+001B⟧" in page and "⟦U+202E⟧" in page


def test_code_of_a_tool_is_shown_as_code_with_its_picture_and_no_picture_beside_a_gold_answer():
    code = "x = '<b>'\nprint(x)"
    step = Step(1, "tool", tool="python", arguments={"code": code}, result="<b>", images=("c" * 64,), copies=("QUJD",))
    page = render_answer(view(step))
    assert '<pre class="text">x = &#39;&lt;b&gt;&#39;\nprint(x)</pre>' in page
    assert '<img src="data:image/jpeg;base64,QUJD"' in page
    assert 'class="reply text printed"' in page, "columns of a traceback stand below each other"
    assert 'text printed"' not in render_answer(view(structs.replace(step, tool="web_search")))
    for sealed in (pages._strike_gold(view(step), ("wren",)), pages._withhold(view(step), right=False)):
        assert "QUJD" not in render_answer(sealed)
    assert "QUJD" in render_answer(pages._strike_gold(view(step), ()))


def test_two_runs_are_tabled_and_plotted_side_by_side_in_pages_and_report(capsys):
    run("run")
    run("other", made.OTHER, "plain", right=())
    capsys.readouterr()
    assert main(["failures", "run", "other", "--pages", "site"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"no search +1 ████ +20\.0 % \[3\.6 – 62\.4\] \(1 rule\) +5 █+ +83\.3 %", out)
    assert f'href="{pages.file_name("other", "s000", 0)}"' in page_of("s000")  # the other model on the same question
    assert main(["report", "run", "other", "--out", "report.html"]) == 0
    for text in (Path("report.html").read_text("utf-8"), Path("site/index.html").read_text("utf-8")):
        section = text.split('<section id="failures"')[1].split("</section>")[0]
        assert "tools:plain" in section and "<svg" in section and "83.3 %" in section and "no search" in section
    assert not re.search(b"zyxgold [0-9] mark", made.text_of("site"))  # "Zyxgold" alone is the other one's answer


def test_a_report_says_where_labels_are_older_than_answers_and_has_no_section_without_labels():
    run("run")
    assert main(["report", "run"]) == 0
    assert 'id="failures"' not in Path("run/report.html").read_text("utf-8")
    assert main(["failures", "run", "-q"]) == 0
    later = Path("run/failures.jsonl").stat().st_mtime_ns + 10**9  # a touch may fall into the same tick of the clock
    os.utime(RunFolder("run").results, ns=(later, later))
    assert main(["report", "run"]) == 0
    assert "failures.jsonl is older than the last answer or verdict" in Path("run/report.html").read_text("utf-8")


def test_shares_are_of_what_is_not_correct_and_labels_that_nobody_has_are_left_out():
    one = LabelCounts(
        4, {"format": {"rule": 1, "judge": 0, "person": 2, "none": 0}, "timeout": {"rule": 0}, "unknown": {"none": 1}}
    )
    rows = tabled.label_rows([tabled.RunLabels("a", 1, one)])
    assert [(row["label"], row["cells"][0]["count"], row["cells"][0]["share"]) for row in rows] == [
        ("format", "3", "75.0 %"), ("unknown", "1", "25.0 %"),
    ]  # fmt: skip
    assert rows[0]["cells"][0]["whose"] == "1 rule, 2 person"


def test_the_bars_of_sixteen_runs_are_told_apart_by_colour_and_fill():
    counts = LabelCounts(2, {"format": {"rule": 1}})
    runs = [tabled.RunLabels(f"run {at}", at % SERIES + 1, counts, cycle=at // SERIES) for at in range(2 * SERIES)]
    (plot,) = tabled.draw_labels(runs)
    bars = re.findall(r'<path d="[^"]*" clip-path="[^"]*" ([^>]*opacity="0.85"[^>]*)/>', plot.svg)
    assert len(bars) == len(set(bars)) == 2 * SERIES


@pytest.mark.browser
def test_the_pages_open_without_a_message_or_a_request_and_nothing_hostile_runs(browser, settled):
    run("run")
    label("--pages", "site")
    addresses = [path.resolve().as_uri() for path in (Path("site/index.html"), *sorted(Path("site/pages").iterdir()))]
    for address in addresses:
        for width, scheme in ((1280, "light"), (420, "dark")):
            with opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
                assert page.evaluate("window.owned") is None and "owned" not in page.title()
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                sizes = page.evaluate("[...document.querySelectorAll('img')].map((img) => img.naturalWidth)")
                assert min(sizes, default=1) > 0 and bool(sizes) == ("pages/" in address)


@pytest.mark.browser
def test_the_list_is_filtered_by_label_and_a_decision_made_there_is_read_back(browser, capsys, settled):
    run("run")
    label("--pages", "site")
    address = Path("site/index.html").resolve().as_uri()
    with opened(browser, address) as page:
        shown: Callable[[], int] = lambda: page.locator("#rows tr:visible").count()  # noqa: E731
        assert shown() == 6
        page.select_option("#by-label", "no_search")
        assert shown() == 1
        page.click("#clear")
        page.check("#by-review")
        assert shown() == 1 and page.locator("#rows tr:visible").inner_text().startswith("s001")
        page.select_option("#rows tr:visible select", "poor_visual_judgement")
        page.fill("#rows tr:visible input", 'it says "<b>heron</b>"')
        assert page.is_disabled("#save")
        page.fill("#reviewer", "Mia")
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as("decisions.jsonl")
        page.goto(address + "#label=format&run=run")
        page.reload()
        assert shown() == 1 and page.input_value("#reviewer") == "Mia"
    assert json.loads(Path("decisions.jsonl").read_text()) == {
        "run": "run", "sample_id": "s001", "repeat": 0, "label": "poor_visual_judgement", "by": "Mia", "note": 'it says "<b>heron</b>"',
    }  # fmt: skip
    assert main(["failures", "run", "--review", "decisions.jsonl", "--pages", "site"]) == 0
    page_text = page_of("s001")
    assert "by an annotator" in page_text and "it says &#34;&lt;b&gt;heron&lt;/b&gt;&#34;" in page_text


def test_a_page_of_a_trace_in_another_form_says_that_there_are_no_steps():
    assert "No step-by-step trace" in render_answer(view(steps=None))
