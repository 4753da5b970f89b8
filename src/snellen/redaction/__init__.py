"""Redaction: keys and gold answers are struck from whatever is written or printed.

`redact` (keys) and `strike` (gold answers) are the only two functions that do so, and every writer below goes through
them. docs/security.md says what each of them strikes.
"""

from __future__ import annotations

from snellen.redaction.gold import WITHHELD, quotes, strike
from snellen.redaction.keys import REDACTED, forget, redact, redact_bytes, register

__all__ = ["REDACTED", "WITHHELD", "forget", "quotes", "redact", "redact_bytes", "register", "strike"]
