"""Every header in which a server says how long to wait is read; none of them can make a client wait for nonsense."""

import math
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import AuthError, NoCreditError, RateLimitError, ServerError
from snellen.models.api.errors import from_status
from snellen.models.api.rate_limits import LONGEST_S, reset_after, retry_after

NOW = 1_800_000_000.0
SKEWED = NOW - 5_000_000
NAMES = (
    "Retry-After",
    "retry-after-ms",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-reset",
    "anthropic-ratelimit-requests-reset",
    "ratelimit-reset",
    "ratelimit",
    "Date",
    "x-ratelimit-remaining-requests",
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": formatdate(SKEWED + 40, usegmt=True), "Date": formatdate(SKEWED, usegmt=True)}, 40.0),
        ({"Retry-After": formatdate(NOW + 40, usegmt=True), "Date": "yesterday"}, 40.0),
        ({"RETRY-AFTER-MS": "1500"}, 1.5),
        ({"Retry-After": str(int(NOW) + 25)}, 25.0),
        ({"Retry-After": "86401"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "1e400"}, None),
        ({"Retry-After": formatdate(NOW + 40 * 365 * 86_400, usegmt=True)}, None),
        ({"Retry-After": "6m0s"}, 360.0),
        ({"Retry-After": "١٢"}, None),
        ({"retry-after-ms": "nan", "Retry-After": "3"}, 3.0),
        ({"retry-after-ms": "-5", "Retry-After": "3"}, 3.0),
        ({"Retry-After": "-5"}, None),
        ({}, None),
        ({"Retry-After": "12"}, 12.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Fri, 99 Foo 20255 99:99:99 GMT"}, None),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": formatdate(NOW - 40, usegmt=True)}, 0.0),
    ],
)
def test_retry_after_is_measured_by_the_clock_of_the_server(headers, seconds):
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "1m30.5s"}, 90.5),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "60s", "x-ratelimit-remaining-tokens": "9",
          "x-ratelimit-remaining-requests": "0"}, 0.02),
        ({"x-ratelimit-reset": str(int(NOW) + 7)}, 7.0),
        ({"X-RateLimit-Reset": str(int(NOW + 7) * 1000)}, 7.0),
        ({"x-ratelimit-reset-requests": "2027-01-15T08:00:30Z"}, 30.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:30+00:00"}, 30.0),
        ({"anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:30Z", "anthropic-ratelimit-requests-reset":
          "2027-01-15T08:00:02Z", "anthropic-ratelimit-input-tokens-remaining": "0"}, 30.0),
        ({"RateLimit-Limit": "100", "RateLimit-Remaining": "0", "RateLimit-Reset": "50"}, 50.0),
        ({"RateLimit": "limit=100, remaining=0, reset=50"}, 50.0),
        ({"RateLimit": "limit=100;remaining=0;reset=50"}, 50.0),
        ({"RateLimit": '"default";r=0;t=30'}, 30.0),
        ({"RateLimit": '"burst";r=5;t=600, "day";r=0;t=12'}, 12.0),
        ({"RateLimit-Policy": '"default";q=100;w=60'}, None),
        ({"x-ratelimitbysize-reset-minute": "35", "x-ratelimitbysize-remaining-minute": "0"}, 35.0),
        ({"x-ratelimit-remaining-requests-day": "9000", "x-ratelimit-reset-requests-day": "33011.38",
          "x-ratelimit-remaining-tokens-minute": "90", "x-ratelimit-reset-tokens-minute": "11.38"}, 11.38),
        ({"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33011.38",
          "x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "11.38"}, 33011.38),
        ({"x-ratelimit-reset-requests": "6ms", "x-ratelimit-remaining-requests": "0"}, 0.006),
        ({"password-reset": "60", "x-ratelimit-limit-requests": "60"}, None),
        ({"x-ratelimit-reset-requests": "-1"}, None),
        ({"x-ratelimit-reset-requests": "0"}, None),
        ({"x-ratelimit-reset-requests": "3650d"}, None),
        ({"x-ratelimit-reset-requests": "NaN"}, None),
        ({"RateLimit": ";;;=,,=r=0;t="}, None),
    ],
)  # fmt: skip
def test_the_reset_of_the_limit_that_is_used_up_is_the_wait(headers, seconds):
    assert reset_after(headers, now=NOW) == (None if seconds is None else pytest.approx(seconds))


words = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"[-+]?[0-9]{1,25}(\.[0-9]{1,10})?(e[0-9]{1,4})?", fullmatch=True),
    st.from_regex(r"([0-9]{1,20}(ms|s|m|h|d)){1,5}", fullmatch=True),
    st.from_regex(r'"[a-z]*";r=-?[0-9]{1,20};t=-?[0-9]{1,20}', fullmatch=True),
    st.datetimes().map(lambda when: when.isoformat()),
    st.integers(-(10**10), 10**12).map(lambda seconds: formatdate(seconds % (10**10), usegmt=True)),
    st.sampled_from(["inf", "-inf", "nan", "1e999", "0x10", "1_000", " 5 ", "Infinity", "5,", "\x00"]),
)


@given(st.dictionaries(st.sampled_from(NAMES), words, max_size=4))
def test_no_header_can_ask_for_more_than_a_day_or_break_the_reader(headers):
    for read in (retry_after, reset_after):
        seconds = read(headers, now=NOW)
        assert seconds is None or (0.0 <= seconds <= LONGEST_S and math.isfinite(seconds))


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(hours, minutes, seconds, milliseconds):
    text = f"{hours}h{minutes}m{seconds}s{milliseconds}ms"
    total = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    assert (reset_after({"x-ratelimit-reset-tokens": text}) or 0.0) == pytest.approx(total)


def test_the_wait_of_geminis_error_object_and_of_a_sentence_is_read():
    info = b'{"error":{"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"17s"}]}}'
    assert from_status(429, {}, info).retry_after_s == 17.0
    words = b'{"error":{"message":"Rate limit reached. Please try again in 1.898s. Visit x"}}'
    assert from_status(429, {}, words).retry_after_s == pytest.approx(1.898)
    azure = b'{"error":{"message":"Requests have exceeded the call rate limit. Please retry after 26 seconds."}}'
    assert from_status(429, {}, azure).retry_after_s == 26.0


def test_limits_in_the_headers_of_an_error_that_is_no_refusal_are_no_wait():
    assert from_status(500, {"x-ratelimit-reset-tokens": "6m0s"}, b"").retry_after_s is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b'{"error":{"message":"x","code":"insufficient_quota"}}'),
        (429, b'{"error":{"message":"x","type":"insufficient_quota","code":"429"}}'),
        (429, b'{"error":{"message":"x","code":"billing_hard_limit_reached"}}'),
        (429, b'{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}'),
        (402, b'{"error":{"message":"Insufficient Balance"}}'),
        (400, b'{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}'),
    ],
)
def test_an_account_without_credit_is_not_waited_for(status, body):
    error = from_status(status, {}, body)
    assert isinstance(error, NoCreditError) and isinstance(error, AuthError) and not error.retry


def test_a_quota_that_begins_anew_in_a_moment_is_a_rate_limit():
    message = b'{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}'
    assert isinstance(from_status(429, {"Retry-After": "20"}, message), RateLimitError)


@pytest.mark.parametrize(("status", "unavailable"), [(429, True), (529, True), (503, True), (502, None), (500, False)])
def test_which_statuses_use_up_no_attempt(status, unavailable):
    error = from_status(status, {}, b"")
    assert isinstance(error, RateLimitError | ServerError) and error.retry and error.unavailable is unavailable
