from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.fio.progress import Progress, ProgressReader, parse_progress

_LINE = "Jobs: 3 (f=3), 0-3000 IOPS: [m(3)][60.0%][r=6000KiB/s,w=6004KiB/s][r=1500,w=1501 IOPS][eta 00m:02s]"


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        (_LINE, Progress(60.0, 3001.0, 12004 / 1024, 2.0)),
        (
            "Jobs: 64 (f=64): [r(64)][100.0%][r=2270MiB/s][r=9080 IOPS][eta 00m:00s]",
            Progress(100.0, 9080.0, 2270.0, 0.0),
        ),
        (
            "Jobs: 1 (f=1): [r(1)][3.3%][r=1.2GiB/s][r=307k IOPS][eta 01h:02m:03s]",
            Progress(3.3, 307e3, 1228.8, 3723.0),
        ),
        (
            "Jobs: 1 (f=1): [w(1)][0.5%][w=12.0MiB/s][w=3072 IOPS][eta 01d:00h:00m:01s]",
            Progress(0.5, 3072.0, 12.0, 86401.0),
        ),
        ("Jobs: 2 (f=2): [r(2)][50.0%][r=8000kb/s][r=10 IOPS]", Progress(50.0, 10.0, 1e6 / 2**20, None)),
        ("Jobs: 2 (f=2): [/(2)][10.0%][eta 00m:09s]", Progress(10.0, 0.0, 0.0, 9.0)),
        (
            "Jobs: 2 (f=2): [_(1),m(1)][10.0%][eta 1158050441d:06h:59m:49s]",
            Progress(10.0, 0.0, 0.0, None),  # fio does not know it yet
        ),
        ("Jobs: 3 (f=0)", None),
        ("fio: this is a note [50.0%]", None),
        ("", None),
    ],
)
def test_a_progress_line_is_parsed(line: str, progress: Progress | None) -> None:
    read = parse_progress(line)
    if progress is None:
        assert read is None
        return
    assert read is not None
    assert (read.percent, read.eta_s) == (progress.percent, progress.eta_s)
    assert read.iops == pytest.approx(progress.iops)
    assert read.mib_s == pytest.approx(progress.mib_s)


def test_pieces_of_output_are_joined() -> None:
    text = f"Jobs: 3 (f=0)\r{_LINE}\r\n{_LINE}\r"
    reader = ProgressReader()
    found = [progress for char in text for progress in reader.feed(char)]
    assert len(found) == 2
    assert found == ProgressReader().feed(text)


def test_progress_as_text() -> None:
    assert str(Progress(33.3, 80_012.4, 312.55, 4.0)) == "33 % 80,012 IOPS 312.6 MiB/s, 4 s left"


@given(st.text(alphabet="Jobs: ()[]%=,.rwtkKMGTi/Bb0123456789etaIOPS:mhd-", max_size=200))
def test_no_line_makes_the_parser_raise(text: str) -> None:
    parse_progress(f"Jobs: {text}")
    parse_progress(f"Jobs: 1 [50%]{text}")


@given(st.text(max_size=300))
def test_no_output_makes_the_reader_raise(text: str) -> None:
    ProgressReader().feed(text)
