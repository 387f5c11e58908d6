"""The output of a job becomes a measurement or an error, without any host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp3
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.observation import Observation
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.workloads.create_files.creation import FileCreation
from pytest_cloudbench.workloads.create_files.errors import (
    CreateFilesError,
    CreationFailed,
    FilesystemFull,
    RecordError,
)
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.outcome import Origin, creation_of
from pytest_cloudbench.workloads.target import Gained

MIB = 1 << 20
AT_125 = "".join(
    f"at {second}.000000 500 {500 * MIB} {500 * second} {125 * MIB * second}\n" for second in (1, 2, 3)
)
WHOLE = f"""\
tool Python 3.9.1
start 1795202034.865323633
written 0.250000 500 {500 * MIB} 0 0
end 1795202035.113323633
cpu 0.200000 0.200000
{AT_125}synced 4.000000 2000 {500 * MIB}
done
"""


def origin(**changes: Any) -> Origin:
    volume = [("vol-0abc", gp3(size_gib=100))]
    target: Any = SimpleNamespace(
        label="xfs on gp3",
        conditions=(),
        host=SimpleNamespace(label="instance i-0abc"),
        envelope=lambda block, *, sequential: storage_envelope(None, volume, block, sequential=sequential),
    )
    job = FilesJob.of(500, "1m", **changes)
    return Origin(target, job, "python", 8, "/data/cloudbench-files-0", ("python3",), "2026-11-20", ())


def read(stdout: str, stderr: str = "", *, exit_code: int = 0, **changes: Any) -> FileCreation:
    files = {"stdout": stdout.encode(), "stderr": stderr.encode()}
    return creation_of(origin(**changes), files, exit_code=exit_code, counters=Gained())


def test_the_figures_of_a_run_that_reached_its_volumes_limit() -> None:
    run = read(WHOLE)
    assert (run.written_s, run.on_device_s, run.files_per_second) == (0.25, 4.0, 2000)
    assert (run.throughput_mib, run.written_throughput_mib) == (125, 2000)
    assert run.left_in_page_cache == Size(500 * MIB)
    assert run.markers_s == pytest.approx(0.248)
    assert run.start_marker is not None
    assert run.start_marker.mtime == "2026-11-20T19:13:54.865324+00:00"
    assert run.block_size == Size.parse("256k")
    assert run.generator is not None
    assert run.generator.cpu_percent_busiest == pytest.approx(5)
    assert repr(run) == (
        "500 files of 1 MiB on xfs on gp3: written after 0.25 s, 2,000 files/s; on the device after 4.00 s, 125 MiB/s"
    )
    side: Observation = run.device_side
    assert (side.throughput_mib, side.iops, side.outstanding_asked) == (125, 500, 2000)
    assert run.reaches("125 MiB/s")
    assert run.envelope is not None
    assert run.capped_by(run.envelope.binding[0])
    assert run.reaches("500 MiB/s").outcome is Outcome.VIOLATED


def _devices_writes(written_s: float, *given_mib: float) -> FileCreation:
    """Return 500 MiB of files, written within ``written_s``; the device's bytes at the end of each second are given."""
    when_written = given_mib[int(written_s) - 1] if written_s >= 1 else 0.0
    samples = "".join(
        f"at {at}.000000 500 {500 * MIB} {round(4 * mib)} {round(mib * MIB)}\n"
        for at, mib in enumerate(given_mib[:-1], 1)
    )
    return read(
        f"tool Python 3.9.1\nwritten {written_s} 500 {500 * MIB} {round(4 * when_written)} "
        f"{round(when_written * MIB)}\ncpu 0.2 0.2\n{samples}synced {len(given_mib)}.0 2000 {500 * MIB}\ndone\n"
    )


def test_a_device_idle_at_the_start_violates_no_promise() -> None:
    """The volume has 125 MiB/s; the device was idle while only the page cache was written."""
    run = _devices_writes(0.9, 12, 137, 262, 387, 500)
    assert run.device_side.idle_at_start_s == 0.9
    verdict = run.reaches("125 MiB/s")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.machine_limited
    assert (
        "inconclusive: 100 of 125 MiB/s (80 %, at least 90 % required); for the first 0.9 of 5 s the load gave the "
        "device nothing to do, and 121.95 MiB/s in the rest: make the load longer or its start shorter"
    ) in str(verdict)
    assert run.envelope is not None
    assert run.capped_by(run.envelope.binding[0]).outcome is Outcome.INCONCLUSIVE
    assert run.reaches("100 MiB/s")


def test_a_slow_device_violates_it_despite_idle_time_at_the_start() -> None:
    assert (
        _devices_writes(0.9, 7, 77, 147, 217, 287, 357, 427, 500).reaches("125 MiB/s").outcome
        is Outcome.VIOLATED
    )


def test_a_device_written_to_all_the_time_was_never_idle() -> None:
    """If the page cache is full at once, a slow device is the reason for the time of the files."""
    run = _devices_writes(6.0, 62, 125, 187, 250, 312, 375, 437, 500)
    assert run.device_side.idle_at_start_s == 0
    assert run.reaches("125 MiB/s").outcome is Outcome.VIOLATED


def test_a_device_written_to_late_was_idle_until_then() -> None:
    run = _devices_writes(3.0, 0, 1, 125, 250, 375, 500)
    assert run.device_side.idle_at_start_s == 2
    assert run.reaches("125 MiB/s").outcome is Outcome.INCONCLUSIVE


def test_a_late_start_does_not_explain_a_share_of_the_time() -> None:
    """Seconds below the promise count, independent of the seconds before them."""
    run = _devices_writes(3.0, 0, 100, 200, 300, 400, 500)
    assert "the device nothing to do" in str(run.reaches("105 MiB/s", within=0.04))
    verdict = run.reaches("105 MiB/s", within=0.04, share=0.9)
    assert verdict.outcome is not Outcome.HELD
    assert "the samples below" in str(verdict)
    assert "the device nothing to do" not in str(verdict)


def test_with_sync_each_only_the_workers_files_are_in_flight() -> None:
    assert read(WHOLE, sync="each", workers=3).device_side.outstanding_asked == 12


@pytest.mark.parametrize(
    ("stderr", "kind", "words"),
    [
        (
            "dd: error writing 'file13': No space left on device\nTerminated\n",
            FilesystemFull,
            "No space left",
        ),
        ("dd: failed to open 'file13': Disk quota exceeded\n", FilesystemFull, "quota exceeded"),
        ("dd: writing 'file13': Input/output error\n", CreationFailed, "Input/output error"),
        ("odd\n", CreationFailed, "odd"),
        ("", CreationFailed, "file number 13"),
    ],
)
def test_the_reason_of_a_shell_loop_is_on_its_standard_error(
    stderr: str, kind: type[Exception], words: str
) -> None:
    said = "tool dd\nwritten 1.20 12 12582912 - -\nfailed 0 the file number 13 cannot be made\ndone\n"
    with pytest.raises(kind, match=words) as caught:
        read(said, stderr, exit_code=1, sync="none")
    assert type(caught.value) is kind
    assert isinstance(caught.value, CreationFailed)
    assert caught.value.partial is not None
    assert caught.value.partial.files == 12
    assert "after 12 of 500 files of 1 MiB" in str(caught.value)


def test_files_that_cannot_be_synced_are_no_measurement() -> None:
    said = WHOLE.replace(
        f"synced 4.000000 2000 {500 * MIB}\n", "unsynced 0 sync: error syncing '/data': Input/output error\n"
    )
    with pytest.raises(CreationFailed, match=r"500 files .* written on xfs on gp3, but .*Input/output error"):
        read(said, exit_code=1)


@pytest.mark.parametrize("stdout", ["", "tool Python 3.9.1\n", WHOLE.partition("done")[0]])
def test_a_job_without_a_complete_record_is_an_error_in_its_own_words(stdout: str) -> None:
    with pytest.raises(RecordError, match=r"instance i-0abc ended early with exit code 1.*MemoryError"):
        read(stdout, "Traceback\nMemoryError\n", exit_code=1)


@given(
    st.lists(st.sampled_from([*WHOLE.splitlines(), "failed 28 No space left on device", "unsynced 5 x"])),
    st.integers(0, 2),
    st.sampled_from(("end", "each", "none")),
)
def test_any_output_is_a_measurement_or_an_error(lines: list[str], exit_code: int, sync: str) -> None:
    try:
        run = read("".join(f"{line}\n" for line in lines), exit_code=exit_code, sync=sync)
    except CreateFilesError:
        return
    assert run.written_s > 0
    assert run.elapsed_s >= run.written_s
    run.to_dict()
    repr(run)
