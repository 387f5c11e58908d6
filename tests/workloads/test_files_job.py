from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.commands import dd_operands, job_argv, job_files
from pytest_cloudbench.workloads.create_files.errors import BadFilesJob
from pytest_cloudbench.workloads.create_files.job import QUICK_DATA, QUICK_FILES, FilesJob, paced_files
from pytest_cloudbench.workloads.create_files.program import Plan
from pytest_cloudbench.workloads.pace import Pace

MIB = 1 << 20


def test_the_default_is_the_documented_job() -> None:
    job = FilesJob.of()
    assert (job.count, job.size, job.sync) == (100_000, Size(MIB), "end")
    assert (job.workers, job.per_folder, job.keep) == (1, None, False)
    assert str(job) == "100,000 files of 1 MiB"
    assert str(job.data) == "100,000 MiB"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"count": 0}, "count=0: use a whole number of at least 1"),
        ({"count": 1.5}, r"count=1\.5: use a whole number"),
        ({"count": True}, "count=True: use a whole number"),
        ({"size": "many"}, "invalid size='many'"),
        ({"size": None}, "invalid size=None"),
        ({"size": 0}, "size=0 B .* at least 1 byte"),
        ({"workers": 0}, "workers=0: use a whole number"),
        ({"count": 3, "workers": 4}, "workers=4 exceeds count=3"),
        ({"per_folder": 0}, "per_folder=0: use a whole number"),
        ({"sync": "always"}, "sync='always': use one of 'end', 'each', 'none'"),
        ({"sync": ["end"]}, r"sync=\['end'\]: use one of"),
        ({"content": "text"}, "content='text': use one of 'random', 'zero'"),
        ({"method": "cp"}, "method='cp': use one of 'python', 'dd'"),
        ({"keep": "yes"}, "keep='yes': use True or False"),
        ({"number": 5}, "unknown create_files option number=: use count, size"),
        ({"method": "dd", "workers": 2}, "method='dd': dd runs in one loop, not in 2 workers"),
        ({"method": "dd", "size": "65m"}, "at most 64 MiB, not of 65 MiB"),
    ],
)
def test_an_invalid_option_is_refused_with_the_valid_values(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadFilesJob, match=sentence):
        FilesJob.of(**wrong)  # type: ignore[arg-type]


jobs = st.builds(
    FilesJob,
    count=st.integers(8, 10**7),
    size=st.integers(1, 1 << 42).map(Size),
    content=st.sampled_from(("random", "zero")),
    sync=st.sampled_from(("end", "each", "none")),
    workers=st.integers(1, 8),
    per_folder=st.none() | st.integers(1, 10**6),
)


@given(jobs)
def test_quick_pace_only_reduces_the_job_and_notes_it(job: FilesJob) -> None:
    for method in ("python", "dd"):
        quick, conditions = paced_files(job, Pace.QUICK, method=method)
        assert 1 <= quick.count <= min(job.count, QUICK_FILES)
        assert quick.size <= job.size
        assert quick.data <= QUICK_DATA
        assert (quick == job) == (conditions == ())
        assert (f"quick pace: {job.count:,} files -> {quick.count:,}" in conditions) == (
            quick.count != job.count
        )
        assert (quick.content, quick.sync, quick.per_folder) == (job.content, job.sync, job.per_folder)
        assert paced_files(quick, Pace.QUICK, method=method) == (quick, ())
        assert paced_files(job, Pace.FULL, method=method) == (job, ())


def test_conditions_of_quick_pace() -> None:
    quick, conditions = paced_files(FilesJob.of(), Pace.QUICK, method="python")
    assert (quick.count, conditions) == (512, ("quick pace: 100,000 files -> 512",))
    quick, conditions = paced_files(FilesJob.of(4, "2g", workers=4), Pace.QUICK, method="python")
    assert conditions == (
        "quick pace: files of 2 GiB -> 512 MiB",
        "quick pace: 4 files -> 1",
        "quick pace: 4 workers -> 1",
    )
    assert paced_files(FilesJob.of(size="4k"), Pace.QUICK, method="python")[0].count == 10_000
    assert paced_files(FilesJob.of(size="4k"), Pace.QUICK, method="dd")[0].count == 2_000
    assert paced_files(FilesJob.of(size="4k", sync="each"), Pace.QUICK, method="python")[0].count == 2_000


@given(jobs)
def test_the_programs_command_line_carries_the_job(job: FilesJob) -> None:
    stats = ["/sys/dev/block/7:1/stat", "/sys/dev/block/7:2/stat"]
    argv = job_argv(job, "python", "/mnt/data/folder", python="/usr/bin/python3", stats=stats)
    assert argv[:3] == ("/usr/bin/python3", "-I", "create_files.py")
    assert list(job_files("python")) == ["create_files.py"]
    job = FilesJob(count=job.count, size=min(job.size, Size(1 << 34)), sync=job.sync, workers=job.workers)
    plan = Plan(list(job_argv(job, "python", "/mnt/data/folder", python=None, stats=stats)[3:]))
    assert (plan.folder, plan.count, plan.size, plan.sync) == (
        "/mnt/data/folder",
        job.count,
        job.size.bytes,
        job.sync,
    )
    assert plan.stats == stats
    shares = [plan.share(worker) for worker in range(job.workers)]
    assert shares[0].start == 1
    assert shares[-1].stop == job.count + 1
    assert all(one.stop == next_one.start for one, next_one in pairwise(shares))
    assert min(len(share) for share in shares) >= 1
    assert sum(len(piece) for piece in plan.pieces) == job.size.bytes


@given(jobs)
def test_dd_writes_the_whole_file(job: FilesJob) -> None:
    operands = dict(word.split("=") for word in dd_operands(job).split())
    count, block = int(operands["count"]), int(operands["bs"])
    assert block <= MIB
    written = count if operands.get("iflag") == "count_bytes" else count * block
    assert written == job.size.bytes
    assert (operands.get("conv") == "fsync") == (job.sync == "each")
