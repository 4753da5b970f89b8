"""A hostile folder of runs: on no page a script runs, a request leaves the server, or a file outside of what is shown is served."""

from __future__ import annotations

import http.client
import re
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from browser_checks import check_width, goto_ready, opened, serving
from hostile_runs import EVIL, PAYLOADS, write_hostile_root

from snellen.viewer.links import LiveLinks
from snellen.viewer.pages import load_pages
from snellen.viewer.states import CaseState, CompareState, ExchangeState, MatrixState, ReviewState, SamplesState

LIVE_ELEMENTS = """() => {
    const address = /^(href|src|srcdoc|action|formaction|hx-(get|post|put|delete))$/;
    const leaves = (value) => { try { const url = new URL(value, location.href); return url.protocol !== 'data:' && url.origin !== location.origin; }
                                catch { return true; } };
    const live = (a) => a.name.startsWith('on') || a.name === 'style' || a.name.startsWith('hx-on') || a.name === 'srcdoc'
        || (address.test(a.name) && (leaves(a.value) || /^\\s*data:text/i.test(a.value)));
    return [...document.querySelectorAll('iframe, base, object, embed, link[rel=stylesheet], meta[http-equiv]')]
        .concat([...document.querySelectorAll('*')].filter((e) => [...e.attributes].some(live)))
        .map((e) => e.outerHTML.slice(0, 200));
}"""


@pytest.fixture(scope="module")
def hostile_ids(tmp_path_factory):
    root = tmp_path_factory.mktemp("view-hostile") / "results"
    root.mkdir()
    return root, write_hostile_root(root)


@pytest.fixture(scope="module")
def address(hostile_ids):
    with serving(hostile_ids[0], reviewer="ada") as url:
        yield url


def get(address: str, path: str) -> tuple[int, str, bytes]:
    """Request a path as it is written: no client tidies it. A page that waits for its data is requested again."""
    while (reply := get_once(address, path))[0] == 202:
        time.sleep(0.1)
    return reply


def get_once(address: str, path: str) -> tuple[int, str, bytes]:
    """Request a path once."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
    try:
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("Host", parts.netloc)
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, reply.getheader("Content-Type", ""), reply.read()
    finally:
        connection.close()


def states(hostile_ids) -> list[str]:
    """Return the addresses that are opened: every page as it begins, and every sample's case."""
    root, ids = hostile_ids
    runs = sorted(path.name for path in root.iterdir() if (path / "traces").is_dir())
    pages = [f"/{name}" if name != "runs" else "/" for name in load_pages() if name not in ("case", "exchange")]
    cases = ["/case?" + CaseState(sample=sample_id).query() for sample_id in ids]
    exchanges = ["/exchange?" + ExchangeState(run=runs[0], sample=sample_id).query() for sample_id in ids[::4]]
    filters = urlencode({"benchmark": PAYLOADS[0], "text": PAYLOADS[5], "runs": PAYLOADS[1], "profile": PAYLOADS[4]})
    benchmark = str(root.parent / "results-data" / "hostile.csv")
    chosen = [
        SamplesState(benchmark=benchmark, runs=tuple(runs), pattern="any wrong", text="script"),
        SamplesState(benchmark=benchmark, sql="SELECT * FROM results"),
        MatrixState(benchmark=benchmark, by="topic"),
        MatrixState(view="heat"),
        CompareState(runs=tuple(runs)),
        CompareState(runs=tuple(runs), by="topic", force=True),
        *(ReviewState(benchmark=benchmark, step=step) for step in ("queue", "agreement", "adjudicate")),
        *(ReviewState(benchmark=benchmark, run=run, step=step) for run in runs for step in ("queue", "agreement")),
        *(ReviewState(benchmark=benchmark, step="queue", sample=sample_id) for sample_id in ids[::5]),
    ]
    links = LiveLinks()
    further = [links.to(state) for state in chosen if state.page in load_pages()]
    return pages + [f"{page}?{filters}" for page in pages] + cases + exchanges + further


def test_there_are_more_than_24_kinds_of_payload():
    assert len(set(PAYLOADS)) >= 24


@pytest.mark.browser
def test_no_page_runs_a_script_or_leaves_the_server(browser, address, hostile_ids):
    with opened(browser, address + "/") as page:
        dialogs, opened_pages = [], 0
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for path in states(hostile_ids):
            status = get(address, path)[0]
            assert status in (200, 400, 404), (path, status)
            if status != 200:  # a browser would write each of them to its console
                continue
            goto_ready(page, address + path)
            opened_pages += 1
            page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
            assert page.evaluate("window.owned") is None, path
            assert page.title() != "owned" and "Snellen" in page.title(), path
            assert page.evaluate(LIVE_ELEMENTS) == [], path
            check_width(page)
        assert dialogs == [] and opened_pages > len(PAYLOADS) + 20


def test_every_case_answers_and_shows_the_payload_as_text(address, hostile_ids):
    for sample_id in hostile_ids[1]:
        status, kind, body = get(address, "/case?" + CaseState(sample=sample_id).query())
        assert status == 200, (sample_id, body[:300])
        assert kind.startswith("text/html")
        assert b"<script>window.owned" not in body and EVIL.encode() + b'"' not in body
    first = get(address, "/case?" + CaseState(sample=hostile_ids[1][0]).query())[2].decode()
    assert "&lt;script&gt;window.owned=1" in first


@pytest.mark.parametrize(
    "path",
    [
        "/images/../../../../etc/passwd",
        "/images/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/images//etc/passwd",
        "/images/" + "0" * 64,
        "/thumbnails/../run_meta.json",
        "/thumbnails/" + "f" * 32,
        "/assets/../../../pyproject.toml",
        "/results/results.jsonl",
        "/exchange?run=../..&sample=x",
        "/exchange?run=/etc&sample=passwd",
        "/case?sample=../../../etc/passwd",
        "/%00",
        "/..;/secret.png",
    ],
)
def test_nothing_outside_of_what_pages_show_is_served(address, path):
    status, _, body = get(address, path)
    assert status in (400, 404), body[:200]
    assert b"root:" not in body and b"fingerprint" not in body and b"\x89PNG" not in body


def test_only_images_of_the_data_that_a_page_shows_are_handed_out(address, hostile_ids):
    sample_id = hostile_ids[1][0]
    body = get(address, "/case?" + CaseState(sample=sample_id).query())[2].decode()
    digests = set(re.findall(r"/images/([0-9a-f]{64})", body))
    assert digests
    for digest in digests:
        status, kind, data = get(address, f"/images/{digest}")
        assert status == 200 and kind == "image/png" and data.startswith(b"\x89PNG")
    secret = (Path(hostile_ids[0]).parent / "secret.png").read_bytes()
    assert all(get(address, f"/images/{digest}")[2] != secret for digest in digests)
