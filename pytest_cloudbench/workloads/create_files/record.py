"""The record that the job writes to standard output while it creates files, line by line.

    tool Python 3.11.2                    the program that creates the files
    start 1795202034.865323633            modification time of the start marker file
    at 1.000213 3711 15200256 80 9437184  seconds, files, bytes; write I/Os and bytes of the device, or - -
    written 27.318 100000 409600000 ...   the same, after the last file was written
    end 1795202062.183323785              modification time of the end marker file
    cpu 26.1 26.1                         CPU seconds of the busiest creating process, and of all of them
    times 0m0.04s 0m0.07s 0m1.9s 0m0.2s   the same from a shell: user and system, its own and its children's
    failed 28 No space left on device     why it ended early; error number 0 if only standard error has the reason
    synced 28.02 412 409731072            seconds, write I/Os and bytes of the device, once all data was on it
    unsynced 5 Input/output error         why the data is not on the device
    done                                  the end of the record

Bytes include the written part of unfinished files. The device's figures count from the start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.workloads.create_files.errors import RecordError

_TIME = re.compile(r"(\d{1,12})(?:\.(\d{1,9}))?\Z", re.ASCII)
_SHELL_TIME = re.compile(r"(\d+)m(\d+(?:\.\d+)?)s\Z", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,19}\Z", re.ASCII)
_NS = 10**9
_LONGEST_LINE = 200


@dataclass(frozen=True)
class Sample:
    """The progress of the job at one moment, in seconds since the first file was begun.

    `device_ios` and `device_bytes` count the writes sent to the devices below; None if unknown.
    """

    seconds: float
    files: int
    bytes: int
    device_ios: int | None = None
    device_bytes: int | None = None


@dataclass(frozen=True)
class Failure:
    """The reason of a failure: the system's error number (0 if unknown) and message."""

    number: int
    words: str


@dataclass
class Record:
    """The parsed record of a job. Missing lines are None; `done` is False if the record is truncated.

    `samples` were taken during the job, before and after the last file. Marker times are in nanoseconds since 1970.
    """

    tool: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    samples: Sequence[Sample] = ()
    written: Sample | None = None
    synced: Sample | None = None
    cpu_busiest_s: float | None = None
    cpu_total_s: float | None = None
    failed: Failure | None = None
    unsynced: Failure | None = None
    done: bool = False


def parse_record(text: str) -> Record:
    """Parse the job's standard output. Raises RecordError with the line that cannot be parsed."""
    record = Record()
    samples: list[Sample] = []
    for line in text.split("\n")[:-1]:
        try:
            _parse_line(record, samples, line)
        except ValueError:
            shown = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."
            raise RecordError(
                f"the record of the job that creates files has an invalid line {shown!r}"
            ) from None
    record.samples = tuple(samples)
    return record


def parse_sample(line: str) -> Sample | None:
    """Parse a line "at ..." or "written ..."; None for any other line. Never raises."""
    word, *fields = line.split(" ")
    if word not in ("at", "written"):
        return None
    try:
        return _sample(fields)
    except ValueError:
        return None


def _parse_line(record: Record, samples: list[Sample], line: str) -> None:
    word, _, rest = line.partition(" ")
    fields = rest.split(" ")
    if word == "at":
        samples.append(_sample(fields))
    elif word == "tool":
        record.tool = rest.strip()
    elif word == "start":
        record.start_ns = _nanoseconds(rest)
    elif word == "end":
        record.end_ns = _nanoseconds(rest)
    elif word == "written":
        record.written = _sample(fields)
    elif word == "synced":
        record.synced = _synced(record, fields)
    elif word == "cpu":
        record.cpu_busiest_s, record.cpu_total_s = (_seconds(field) for field in fields)
    elif word == "times":
        own_user, own_system, user, system = (_shell_seconds(field) for field in fields)
        record.cpu_busiest_s = record.cpu_total_s = own_user + own_system + user + system
    elif word == "failed":
        # The first failure is the cause; later ones may be its consequences.
        record.failed = record.failed or _failure(rest)
    elif word == "unsynced":
        record.unsynced = _failure(rest)
    elif line == "done":
        record.done = True
    else:
        raise ValueError


def _sample(fields: Sequence[str]) -> Sample:
    seconds, files, size, ios, device_bytes = fields
    return Sample(_seconds(seconds), _whole(files), _whole(size), _counter(ios), _counter(device_bytes))


def _synced(record: Record, fields: Sequence[str]) -> Sample:
    seconds, ios, device_bytes = fields
    if record.written is None:
        raise ValueError
    files, size = record.written.files, record.written.bytes
    return Sample(_seconds(seconds), files, size, _counter(ios), _counter(device_bytes))


def _failure(text: str) -> Failure:
    number, _, words = text.partition(" ")
    return Failure(_whole(number), words.strip())


def _counter(text: str) -> int | None:
    return None if text == "-" else _whole(text)


def _whole(text: str) -> int:
    if not _WHOLE.match(text):
        raise ValueError
    return int(text)


def _seconds(text: str) -> float:
    if not _TIME.match(text):
        raise ValueError
    return float(text)


def _shell_seconds(text: str) -> float:
    found = _SHELL_TIME.match(text)
    if not found:
        raise ValueError
    return int(found.group(1)) * 60 + float(found.group(2))


def _nanoseconds(text: str) -> int:
    """Parse a time in seconds as `stat` prints it."""
    found = _TIME.match(text)
    if not found:
        raise ValueError
    whole, fraction = found.groups()
    return int(whole) * _NS + int((fraction or "").ljust(9, "0"))
