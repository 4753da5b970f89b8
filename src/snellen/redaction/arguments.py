"""Keys in arguments, addresses, request settings and run specifications, all of which are recorded.

`held_key` and `key_among` find them and never show a value; whoever asks refuses the argument. A key is known by its
name (`api_key=`, `"Authorization": …`, `--token …`), as user name or password of an address, or by its shape. Where a name
has a word for a secret anywhere in it, or stands below such a name, a value that looks drawn by lot is a key too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.redaction.decoding import texts
from snellen.redaction.keys import redact

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable."""
SHAPE = "text that looks like a key"
USER = "a user name or password"

_SURE = (
    *("apikey", "accesskey", "secretkey", "password", "passwd", "passphrase", "secret", "secrets", "authorization"),
    *("credential", "credentials", "bearer", "authtoken", "accesstoken", "apitoken"),
    *("connectionstring", "connstring", "connectionstr", "connstr", "setcookie"),
)
_SURE_WORDS = ("auth", "pwd", "pw", "jwt", "key", "token")
_DOUBTFUL = (
    *("key", "keys", "keyid", "token", "tok", "pat", "sig", "signature", "cookie", "session", "sid"),
    *("code", "pass"),
)
"""Endings of names that are those of keys if their value looks drawn by lot."""
_SECRETS = frozenset(
    (
        *("apikey", "auth", "authentication", "authorization", "bearer", "cookie", "cred", "credential", "creds"),
        *("dsn", "hmac", "jwt", "key", "passphrase", "passwd", "password", "pat", "pwd", "sas", "secret"),
        *("session", "sig", "signature", "token"),
    )
)
"""Words for a secret, in the singular, at any place of a name."""
_ABOUT = (
    *("column", "count", "env", "field", "file", "length", "limit", "name", "path", "size", "type"),
    *("var", "variable"),
)
"""Last words of names that tell something about a secret."""
_INNOCENT = frozenset(
    (
        *("answer", "audio", "bos", "cache", "class", "cls", "column", "data", "dataset", "dict", "end"),
        *("eos", "field", "foreign", "group", "id", "image", "index", "join", "label", "mask", "metric"),
        *("pad", "partition", "primary", "prompt", "question", "reply", "response", "row", "score", "sep"),
        *("sort", "special", "start", "stop", "target", "text", "think", "unk", "value", "video"),
    )
)
"""Words before `key` and `token` in names of other things."""
_NO_KEYS = ("cachekey",)  # prompt_cache_key of OpenAI's interface
_HARMLESS = ("", "true", "false", "none", "null", "empty", "0", "1", "no", "yes", "...", "…", "default")
_REFERENCE = re.compile(r"\$\{?\w+\}?|\{env:\w+\}|<[^<>]*>?|\*+|\[redacted\]?")
_ASSIGNED = re.compile(r"[^\s=;,]+=[^\s;]+")
"""What a cookie looks like."""
_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY-----")
_NAMES, _VALUES = ("name", "header", "field", "variable"), ("value", "val", "content")
# What repeats is bounded: a file of --extra-body may have megabytes.
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PAIR = re.compile(
    r"""(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z][A-Za-z0-9_.-]*)\\?["']?\s*([=:])(?=\s*\\?["']?([^\s,;&"'\\]{0,300}))"""
)
_OPTION = re.compile(r"(?<!\S)--?([A-Za-z][\w-]*)\s+(?=([^\s,-][^\s,]*))")
_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://(?!git@)[^\s/?#@]+@")
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:eyJ[\w-]{8,400}\.eyJ|glpat-|xox[abeprs]-|gh[ousr]_|r8_|pplx-|fw_|tgp_v1_|csk-|dapi|ya29\.|AQ\.|ASIA"
    r"|sk_(?:live|test)_)(?=[A-Za-z_-]{0,200}\d)[\w.-]{16}",
    re.ASCII,
)
"""Keys of further services, and JSON web tokens."""
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+(\S+)", re.IGNORECASE)


def held_key(text: str) -> str | None:
    """Return the name or kind of a key that the text holds; None if there is none."""
    if redact(text) is not text or _SHAPES.search(text) or _PRIVATE.search(text):
        return SHAPE
    for reading in texts(text):
        if _USER.search(reading):
            return USER
        for pair in _PAIR.finditer(reading):
            if _is_key(pair[1], pair[3], written=pair[2]):
                return f"{pair[1]}{pair[2]}"
        for option in _OPTION.finditer(reading):
            if _is_key(option[1], option[2]):
                return f"--{option[1]}"
    return None


def key_among(value: Any, name: str = "", above: str = "") -> str | None:
    """Search a JSON value for a key, by its texts and by the names of its members.

    Args:
        value: the value.
        name: of the member that it is, or of one above that is surely a key's.
        above: of the nearest member around it that has a word for a secret.
    """
    above = name if _means_secret(_words(name)) else above
    if isinstance(value, Mapping):
        inherited = name if name and _is_key(name, "x") else ""
        if any(held_key(str(key)) == SHAPE or (above and _is_random(str(key))) for key in value):
            return SHAPE
        # One member of a list of headers or variables.
        pair = [next((value[key] for key in keys if key in value), None) for keys in (_NAMES, _VALUES)]
        return _key_in_pair(pair) or next(
            (hit for key, item in value.items() if (hit := key_among(item, inherited or str(key), above))), None
        )
    if isinstance(value, (list, tuple)):
        if (pair_hit := _key_in_pair(value)) and (_SCHEME.match(value[1]) or _is_random(value[1])):
            return pair_hit
        return next((hit for item in value if (hit := key_among(item, name, above))), None)
    if isinstance(value, bool) or value is None:
        return None
    if name and _is_key(name, str(value)):
        return repr(name)
    if not isinstance(value, str):
        return None
    return repr(above) if above and not _is_about(_words(name)) and _is_random(value) else held_key(value)


def _key_in_pair(pair: Sequence[Any]) -> str | None:
    """Return the name of a (name, value) that is a key's, as in a list of headers."""
    is_pair = len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str) and pair[0].isprintable()
    return repr(pair[0]) if is_pair and len(pair[0]) <= 80 and _is_key(pair[0], pair[1]) else None


def may_be_shown(variable: str) -> bool:
    """Return True if a variable's name is a name, not a key by mistake: words, perhaps numbered."""
    if VARIABLE.fullmatch(variable) is None or redact(variable) is not variable or len(variable) > 80:
        return False
    words = variable.split("_")
    return all(re.fullmatch(r"[A-Za-z]{0,24}[0-9]{0,3}", word) and not _is_random(word) for word in words)


def _is_key(name: str, value: str, written: str = "=") -> bool:
    scheme = _SCHEME.match(value)
    value = (scheme[1] if scheme else value).strip()
    if value.lower() in _HARMLESS or _REFERENCE.fullmatch(value):
        return False
    words = _words(name)
    joined = "".join(words)
    if not words or joined.endswith(_NO_KEYS):
        return False
    alone = len(words) == 1
    innocent = (alone and written == ":") or (not alone and words[-2] in _INNOCENT)
    sure = joined.endswith(_SURE) or (words[-1] in _SURE_WORDS and not innocent)
    if sure or (joined.endswith(_DOUBTFUL) and _is_random(value)):
        return True
    if not _means_secret(words) or _is_about(words):
        return False
    return _is_random(value) or ("cookie" in joined and _ASSIGNED.match(value) is not None)


def _words(name: str) -> list[str]:
    """Return the words of a name in camelCase, snake_case or kebab-case, without numbers."""
    return [word.lower() for word in _PARTS.findall(name) if not word.isdigit()]


def _means_secret(words: Sequence[str]) -> bool:
    """Return True for a name with a word for a secret anywhere in it: `token_value`, `cookies`, `apiKeyPrimary`."""
    known = any(not _SECRETS.isdisjoint((word, word.removesuffix("s"))) for word in words)
    return known and not "".join(words).endswith(_NO_KEYS)


def _is_about(words: Sequence[str]) -> bool:
    return bool(words) and words[-1] in _ABOUT


def _is_random(value: str) -> bool:
    """Return True if a value without a blank looks drawn by lot.

    Its letters and digits take turns, or its capital and small ones; it is one long word, or hexadecimal digits, or a number
    of ten; or it has five consonants in a row, as few words do.
    """
    if len(value) < 8 or re.search(r"\s", value):
        return False
    plain = re.sub(r"[^A-Za-z0-9]", "", value)[:400]
    if len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", value)) >= 2 or re.search(r"[A-Za-z0-9]{24,}", value):
        return True
    if len(plain) < 8:
        return False
    turns = len(re.findall(r"[a-z](?=[A-Z])|[A-Z](?=[a-z])|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", plain))
    return (
        turns >= max(3, 0.3 * len(plain))
        or re.fullmatch(r"[0-9a-f]{16,}|[0-9A-F]{16,}|[0-9]{10,}", plain) is not None
        or (len(plain) >= 12 and re.search(r"[bcdfghjklmnpqrstvwxz]{5}", plain, re.IGNORECASE) is not None)
    )
