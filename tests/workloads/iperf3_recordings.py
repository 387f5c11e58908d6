"""What real iperf3 of several versions wrote, on loopback, two or three seconds a run.

`iperf3_outputs/VERSION.json` holds, by the kind of run and by end, the document (or the text, where there was
no JSON), the error text and the exit code. Left out of the documents are cookie, system and time of day.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from pytest_cloudbench.workloads.iperf3.output import ProcessFiles, ProcessOutput, parse_output

_DIRECTORY = Path(__file__).parent / "iperf3_outputs"

VERSIONS = ("3.1.3", "3.7", "3.9", "3.12", "3.16", "3.22")


@functools.cache
def _recorded(version: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((_DIRECTORY / f"{version}.json").read_text())
    return recorded


def kinds_of(version: str) -> list[str]:
    """The kinds of runs recorded of a version."""
    return list(_recorded(version))


def document(version: str, kind: str, role: str) -> dict[str, Any]:
    """A recorded document, to be changed at will."""
    found: dict[str, Any] = json.loads(json.dumps(_recorded(version)[kind][role]["output"]))
    return found


def files(version: str, kind: str, role: str) -> ProcessFiles:
    """What that process left, laid out as iperf3 does."""
    each = _recorded(version)[kind][role]
    output = each["output"]
    if output is None:
        data = b""
    elif "text" in output:
        data = output["text"].encode()
    else:
        data = as_written(output)
    return ProcessFiles(data, each["stderr"], each["exit_code"])


def as_written(output: dict[str, Any], notes: str = "") -> bytes:
    """A document as iperf3 lays it out."""
    text = json.dumps(output, indent="\t")
    return f"{notes}{text}\n".encode()


def parsed(version: str, kind: str, role: str) -> ProcessOutput:
    """A recorded output, read."""
    return parse_output(files(version, kind, role), role=role, reverse="reverse" in kind)
