"""JUnit XML about checks: one suite per run, one case per check, for the test pages of CI services.

The form is that of Ant and Jenkins, which GitLab, GitHub actions, Azure and CircleCI read too: testsuites, testsuite,
properties, testcase, failure and error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from snellen.atomic_write import replacing
from snellen.redaction import redact
from snellen.runs.check_cases import CheckCase, CheckSuite

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, suites: Sequence[CheckSuite]) -> None:
    """Write the suites to a file, and make its folder.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_bytes(junit_xml(suites))


def junit_xml(suites: Sequence[CheckSuite]) -> bytes:
    """Return the XML of the suites, in UTF-8, without keys and without characters that XML cannot hold."""
    root = ElementTree.Element("testsuites", {"name": "snellen", **_counts([c for s in suites for c in s.cases])})
    for suite in suites:
        seconds = f"{suite.seconds:.3f}"
        element = ElementTree.SubElement(
            root, "testsuite", {"name": _text(suite.name), **_counts(suite.cases), "skipped": "0", "time": seconds}
        )
        if suite.properties:
            properties = ElementTree.SubElement(element, "properties")
            for name, value in suite.properties.items():
                ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
        for case in suite.cases:
            # A dot would be read as a package of Java.
            classname = f"snellen.{_text(suite.name).replace('.', '_')}"
            attributes = {"classname": classname, "name": _text(case.name), "time": "0"}
            node = ElementTree.SubElement(element, "testcase", attributes)
            if case.outcome == "passed":
                ElementTree.SubElement(node, "system-out").text = _text(case.text)
            else:
                tag = "failure" if case.outcome == "failed" else "error"
                first_line = _text(case.text).partition("\n")[0]
                reason = ElementTree.SubElement(node, tag, {"message": first_line, "type": case.kind or tag})
                reason.text = _text(case.text)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counts(cases: Sequence[CheckCase]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome == "failed" for case in cases)),
        "errors": str(sum(case.outcome == "error" for case in cases)),
    }


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", redact(text))
