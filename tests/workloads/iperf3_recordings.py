"""Output of real iperf3 of several versions, from runs of two or three seconds on loopback.

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
    """Return the kinds of runs recorded for a version."""
    return list(_recorded(version))


def document(version: str, kind: str, role: str) -> dict[str, Any]:
    """Return a copy of a recorded document."""
    found: dict[str, Any] = json.loads(json.dumps(_recorded(version)[kind][role]["output"]))
    return found


def files(version: str, kind: str, role: str) -> ProcessFiles:
    """Return the files of a recorded process, formatted as iperf3 does."""
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
    """Return a document formatted as iperf3 does."""
    text = json.dumps(output, indent="\t")
    return f"{notes}{text}\n".encode()


def parsed(version: str, kind: str, role: str) -> ProcessOutput:
    """Return a parsed recorded output."""
    return parse_output(files(version, kind, role), role=role, reverse="reverse" in kind)
