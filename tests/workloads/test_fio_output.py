from __future__ import annotations

import contextlib
import copy
import errno
import json
import math
import random
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.errors import StorageLost
from pytest_cloudbench.workloads.fio.errors import FioError, FioOutputError, FioRefused
from pytest_cloudbench.workloads.fio.output import explained, parse_output, percentile_of_bins


def _stats(mean_ns: float, count: int, bins: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"min": 1000, "max": 9000, "mean": mean_ns, "stddev": 1.0, "N": count, "bins": bins, **more}


def _way(ios: int, stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "io_bytes": ios * 4096,
        "bw_bytes": ios * 4096,
        "bw": ios * 4,
        "iops": float(ios),
        "runtime": 1000,
        "total_ios": ios,
        "clat_ns": _stats(1500.0, ios, {}),
        "lat_ns": stats,
    }


_NOTHING: dict[str, Any] = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}

_DOCUMENT: dict[str, Any] = {
    "fio version": "fio-3.42",
    "jobs": [
        {
            "jobname": "cloudbench",
            "error": 0,
            "read": _way(300, _stats(2000.0, 300, {"1000": 200, "4000": 100})),
            "write": _way(100, _stats(6000.0, 100, {"4000": 50, "8000": 50})),
            "usr_cpu": 5.0,
            "sys_cpu": 15.0,
        }
    ],
}


def _output(document: dict[str, Any] = _DOCUMENT, notes: str = "") -> bytes:
    return f"{notes}{json.dumps(document, indent=2)}\n".encode()


def test_reads_and_writes_are_parsed_separately_and_together() -> None:
    result = parse_output(_output())
    assert result.version == "fio-3.42"
    assert result.iops == 400.0
    assert result.throughput_mib == pytest.approx(400 * 4096 / 2**20)
    assert result.read is not None
    assert result.write is not None
    assert (result.read.ios, result.write.bytes) == (300, 100 * 4096)
    assert result.latency is not None
    assert result.latency.mean_s == pytest.approx(3000e-9)
    assert result.latency.p50_s == pytest.approx(1000e-9)
    assert result.latency.p95_s == pytest.approx(8000e-9)
    assert (result.runtime_s, result.cpu_percent) == (1.0, 20.0)


def test_a_direction_without_io_is_none() -> None:
    document = copy.deepcopy(_DOCUMENT)
    document["jobs"][0]["write"] = _NOTHING
    result = parse_output(_output(document))
    assert result.write is None
    assert result.iops == 300.0


def test_notes_before_the_json_are_skipped() -> None:
    notes = "fio: file:hash.c:1, this {is} a note\nnote: both iodepth >= 1 and synchronous engine\n"
    assert parse_output(_output(notes=notes)).iops == 400.0


def test_text_after_the_json_is_ignored() -> None:
    assert parse_output(_output() + b"fio: late words\n").iops == 400.0


def test_jobs_reported_one_by_one_are_added_up() -> None:
    document = copy.deepcopy(_DOCUMENT)
    document["jobs"].append(copy.deepcopy(document["jobs"][0]))
    result = parse_output(_output(document))
    assert result.iops == 800.0
    assert result.latency is not None
    assert result.latency.mean_s == pytest.approx(3000e-9)


@pytest.mark.parametrize("key", ["99.000000", "99.00", "99"])
def test_percentile_keys_are_strings_of_any_precision(key: str) -> None:
    document = copy.deepcopy(_DOCUMENT)
    document["jobs"][0]["write"] = _NOTHING
    document["jobs"][0]["read"]["lat_ns"]["percentile"] = {key: 5000}
    latency = parse_output(_output(document)).latency
    assert latency is not None
    assert latency.p99_s == pytest.approx(5000e-9)
    assert latency.p50_s is None


def test_completion_latency_is_used_if_total_latency_was_not_timed() -> None:
    document = copy.deepcopy(_DOCUMENT)
    document["jobs"][0]["write"] = _NOTHING
    document["jobs"][0]["read"]["lat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "N": 0}
    latency = parse_output(_output(document)).latency
    assert latency is not None
    assert latency.mean_s == pytest.approx(1500e-9)


def test_without_any_timing_there_is_no_latency() -> None:
    document = copy.deepcopy(_DOCUMENT)
    for way in ("read", "write"):
        for key in ("lat_ns", "clat_ns"):
            del document["jobs"][0][way][key]
    assert parse_output(_output(document)).latency is None


def test_an_error_in_the_json_is_raised_as_a_refusal() -> None:
    document = copy.deepcopy(_DOCUMENT)
    document["jobs"][0]["error"] = 28
    notes = "fio: io_u error on file /mnt/x: No space left on device: write offset=0, buflen=4096\n"
    with pytest.raises(FioRefused) as caught:
        parse_output(_output(document, notes), exit_code=1)
    assert "No space left on device (errno 28)" in str(caught.value)
    assert "io_u error on file /mnt/x" in str(caught.value)


@pytest.mark.fault("disks", "a volume is lost while fio runs")
@pytest.mark.parametrize("field", ["error", "first_error"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENXIO, errno.ENODEV])
def test_an_error_of_the_device_is_a_lost_volume_and_no_figure(field: str, number: int) -> None:
    document = {
        "jobs": [
            {"jobname": "a", "read": {"total_ios": 1000, "iops": 500.0, "bw_bytes": 1, "runtime": 2100}},
            {"jobname": "b", field: number, "total_err": 1, "read": {"total_ios": 7, "runtime": 2400}},
        ]
    }
    with pytest.raises(StorageLost, match=r"lost at second 2: .*no figure"):
        parse_output(json.dumps(document).encode(), exit_code=1 if field == "error" else 0)


@pytest.mark.fault("disks", "a volume is lost between its check and fio's start")
@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("x: you need to specify size=\nfio: pid=0, err=22/file:filesetup.c:1155, func=total_file_size", 22),
        ("fio: file creation disallowed by allow_file_create=0", 0),
        ("/dev/nvme1n1: zero sized block device?", 0),
        (
            "fio: pid=7, err=2/file:filesetup.c:754, func=open(/dev/nvme1n1), error=No such file or directory",
            2,
        ),
    ],
)
def test_a_device_that_fio_does_not_find_at_its_start_is_a_lost_volume(said: str, number: int) -> None:
    output = _output({"jobs": [{"jobname": "x", "error": number, "read": _NOTHING}]}, f"{said}\n")
    for kind, error in (("block", StorageLost), ("file", FioRefused), ("directory", FioRefused)):
        target: Any = SimpleNamespace(kind=kind)
        with pytest.raises(error) as caught, explained(target):
            parse_output(output, exit_code=1)
        assert said.splitlines()[-1].removeprefix("fio: ") in str(caught.value)
        assert ("lost before its load began" in str(caught.value)) == (kind == "block")


def test_a_job_that_fio_refuses_on_a_device_is_not_a_lost_volume() -> None:
    target: Any = SimpleNamespace(kind="block")
    with pytest.raises(FioRefused), explained(target):
        parse_output(b"", exit_code=1, stderr="fio: engine nosuch not loadable\nfio: failed to load engine\n")


def test_an_exit_code_alone_is_a_refusal() -> None:
    with pytest.raises(FioRefused, match="exit code 2: engine broke"):
        parse_output(_output(), exit_code=2, stderr="fio: engine broke\n")


def test_text_without_json_is_a_refusal() -> None:
    with pytest.raises(FioRefused, match="engine nosuch not loadable; failed to load engine"):
        parse_output(b"", exit_code=1, stderr="fio: engine nosuch not loadable\nfio: failed to load engine\n")


@pytest.mark.parametrize("output", [None, b""])
def test_missing_output_is_reported(output: bytes | None) -> None:
    with pytest.raises(FioOutputError, match="no output at all"):
        parse_output(output)


def test_truncated_output_is_reported() -> None:
    whole = _output()
    with pytest.raises(FioOutputError, match="damaged or cut off"):
        parse_output(whole[: len(whole) // 2])


@pytest.mark.parametrize("document", [{}, {"jobs": {}}, {"client_stats": []}, {"jobs": []}, {"jobs": [1]}])
def test_json_of_another_shape_is_reported(document: dict[str, Any]) -> None:
    with pytest.raises(FioOutputError, match="fio's JSON"):
        parse_output(_output(document))


def test_a_run_without_io_is_an_error() -> None:
    with pytest.raises(FioOutputError, match="did no I/O"):
        parse_output(_output({"jobs": [{"error": 0, "read": _NOTHING, "write": _NOTHING}]}))


@pytest.mark.fault("parsers", "fio's output is damaged")
@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5", True, []])
@pytest.mark.parametrize(
    "place",
    [
        ("read", "iops"),
        ("read", "bw_bytes"),
        ("read", "runtime"),
        ("write", "total_ios"),
        ("read", "lat_ns", "mean"),
        ("read", "lat_ns", "max"),
        ("write", "lat_ns", "N"),
        ("write", "lat_ns", "bins", "4000"),
        ("usr_cpu",),
        ("error",),
    ],
)
def test_a_value_that_is_no_amount_is_refused(place: tuple[str, ...], wrong: object) -> None:
    document = copy.deepcopy(_DOCUMENT)
    part = document["jobs"][0]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = wrong
    with pytest.raises(FioOutputError, match=f"{place[-1]} is "):
        parse_output(_output(document))


@pytest.mark.fault("parsers", "fio's output is damaged")
@given(cut=st.integers(0, 5000), flip=st.integers(0, 5000), byte=st.integers(0, 255))
def test_damaged_output_raises_a_fio_error_or_gives_a_result(cut: int, flip: int, byte: int) -> None:
    data = bytearray(_output()[:cut] if cut % 2 else _output())
    if data:
        data[flip % len(data)] = byte
    with contextlib.suppress(FioError):
        parse_output(bytes(data))


@given(st.dictionaries(st.integers(1, 10**9), st.integers(1, 10**6), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_a_bin_that_reaches_it(bins: dict[int, int], percent: float) -> None:
    value = percentile_of_bins(bins, percent)
    total = sum(bins.values())
    assert value in bins
    assert sum(count for each, count in bins.items() if each <= value) >= total * percent / 100 * (1 - 1e-12)
    assert sum(count for each, count in bins.items() if each < value) < total * percent / 100 + 1e-6


def test_merged_histograms_give_fios_own_percentiles(fio_path: str, tmp_path: Path) -> None:
    """One direction of a real run, its histogram split in two and merged again."""
    subprocess.run(
        [
            fio_path,
            "--name=x",
            "--rw=randread",
            "--bs=4k",
            "--size=4m",
            "--runtime=1",
            "--time_based",
            "--numjobs=2",
            "--group_reporting",
            "--lat_percentiles=1",
            "--output-format=json+",
            "--output=out.json",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    output = (tmp_path / "out.json").read_bytes()
    document = json.loads(output[output.index(b"{") :])
    assert len(document["jobs"]) == 1
    whole = parse_output(output).latency
    parts = [copy.deepcopy(document["jobs"][0]) for _ in range(2)]
    dice = random.Random(1)
    for value, count in parts[0]["read"]["lat_ns"]["bins"].items():
        mine = dice.randint(0, count)
        parts[0]["read"]["lat_ns"]["bins"][value] = mine
        parts[1]["read"]["lat_ns"]["bins"][value] = count - mine
    document["jobs"] = parts
    merged = parse_output(_output(document)).latency
    assert whole is not None
    assert merged is not None
    assert (merged.p50_s, merged.p95_s, merged.p99_s, merged.p999_s) == (
        whole.p50_s,
        whole.p95_s,
        whole.p99_s,
        whole.p999_s,
    )
