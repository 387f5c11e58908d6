from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.rates import share_rates
from pytest_cloudbench.workloads.fio.run import paced
from pytest_cloudbench.workloads.pace import Pace


def _options(argv: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (word[2:].partition("=") for word in argv[1:])]


def test_a_job_becomes_the_command_line_of_fio() -> None:
    job = FioJob.of("randread", "4k", iodepth=16, numjobs=64, size="500m", runtime=300, ramp_time=20)
    options = dict(_options(job.to_argv("directory", ["/mnt1"])))
    wanted = {
        "rw": "randread",
        "bs": "4096",
        "iodepth": "16",
        "numjobs": "64",
        "size": str(500 << 20),
        "runtime": "300",
        "ramp_time": "20",
        "time_based": "1",
        "ioengine": "libaio",
        "direct": "1",
        "directory": "/mnt1",
        "group_reporting": "1",
    }
    assert wanted.items() <= options.items()
    assert "rate_iops" not in options
    assert "filename" not in options


def test_a_device_is_never_created() -> None:
    argv = FioJob.of("read", "256k").to_argv("block", ["/dev/disk/by-path/a:b"])
    options = dict(_options(argv))
    assert options["filename"] == "/dev/disk/by-path/a\\:b"
    assert options["allow_file_create"] == "0"
    assert "directory" not in options


def test_every_device_gets_its_own_jobs_and_the_rates_still_add_up() -> None:
    job = FioJob.of("randread", numjobs=3, rate_iops=1000)
    argv = job.to_argv("block", ["/dev/a", "/dev/b"])
    sections: list[dict[str, str]] = []
    for name, value in _options(argv):
        if name == "name":
            sections.append({})
        if sections:
            sections[-1][name] = value
    assert len({each["name"] for each in sections}) == len(sections)
    jobs_of = dict.fromkeys(("/dev/a", "/dev/b"), 0)
    total = 0
    for each in sections:
        jobs_of[each["filename"]] += int(each["numjobs"])
        total += int(each["numjobs"]) * int(each["rate_iops"].split(",")[0])
    assert jobs_of == {"/dev/a": 3, "/dev/b": 3}
    assert total == 1000
    assert job.outstanding(2) == 6


@given(
    jobs=st.integers(1, 200),
    total=st.integers(1, 3_000_000),
    read_percent=st.integers(0, 100),
    kind=st.sampled_from(["iops", "bytes", "both"]),
)
def test_divided_rates_add_up_to_the_total(jobs: int, total: int, read_percent: int, kind: str) -> None:
    try:
        shares = share_rates(
            jobs=jobs,
            rate_iops=total if kind != "bytes" else None,
            rate_bytes_s=total * 7 if kind != "iops" else None,
            read_percent=read_percent,
        )
    except BadFioJob:
        smallest = min(part for part in (read_percent, 100 - read_percent) if part) * total / 100
        assert smallest < jobs + 1
        return
    assert sum(share.jobs for share in shares) == jobs
    assert len(shares) <= 5
    if kind != "bytes":
        reads = sum(share.jobs * (share.read_iops or 0) for share in shares)
        writes = sum(share.jobs * (share.write_iops or 0) for share in shares)
        assert reads + writes == total
        assert abs(reads - total * read_percent / 100) <= 0.5
    if kind != "iops":
        assert (
            sum(share.jobs * ((share.read_bytes or 0) + (share.write_bytes or 0)) for share in shares)
            == total * 7
        )
    for share in shares:
        # 0 would mean "no limit" to fio.
        if read_percent > 0 and kind != "bytes":
            assert share.read_iops is not None
            assert share.read_iops >= 1
        if read_percent < 100 and kind != "bytes":
            assert share.write_iops is not None
            assert share.write_iops >= 1


def test_a_mixed_rate_is_divided_into_reads_and_writes() -> None:
    argv = FioJob.of("randrw", rwmixread=70, rate_iops=1000, numjobs=2).to_argv("block", ["/dev/a"])
    assert "--rate_iops=350,150" in argv
    assert "--rwmixread=70" in argv


def test_a_rate_of_one_direction_names_only_that_direction() -> None:
    assert "--rate_iops=500," in FioJob.of("read", rate_iops=500).to_argv("block", ["/dev/a"])
    assert "--rate=,1048576" in FioJob.of("write", rate="1m").to_argv("block", ["/dev/a"])


def test_rates_may_be_quantities() -> None:
    job = FioJob.of("read", rate_iops=Iops(100), rate=Throughput.from_mib(1))
    assert (job.rate_iops, job.rate) == (Iops(100), Throughput(1048576.0))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"rw": "trim"}, "discards data"),
        ({"rw": "randomread"}, "read, write, randread"),
        ({"bs": "4q"}, "bs='4q' "),
        ({"bs": 0}, "bs=0 B"),
        ({"bs": "4 KB"}, "KiB for 1,024, kB for 1,000"),
        ({"bs": "128kb"}, "bs='128kb'"),
        ({"bs": "4 kB"}, "bs=4,000 B is not a multiple of 512"),
        ({"bs": "4,5k"}, "decimal point: 4.5"),
        ({"size": "1,5g"}, "decimal point: 1.5"),
        ({"rate": "100mb"}, "MiB for 1,024, MB for 1,000"),
        ({"iodepth": 0}, "iodepth=0 is not a whole number of at least 1"),
        ({"numjobs": 1.5}, "numjobs=1.5"),
        ({"runtime": 0}, "runtime=0 is not a whole number of seconds of at least 1"),
        ({"runtime": "60s"}, "runtime='60s'"),
        ({"ramp_time": -1}, "ramp_time=-1"),
        ({"size": "1k"}, "smaller than one block"),
        ({"rwmixread": 50}, "needs rw='rw' or 'randrw'"),
        ({"rw": "randrw", "rwmixread": 101}, "more than 100"),
        ({"numjobs": 64, "rate_iops": 63}, "less than one I/O a second for each of 64 jobs"),
        ({"rate_iops": "fast"}, "rate_iops='fast'"),
        ({"rate_process": "poisson"}, "give rate_iops="),
        ({"rate_process": "bursty", "rate_iops": 10}, "not one of linear, poisson"),
        ({"name": "a/b"}, "letters, digits"),
        ({"output": "x"}, "output= is not passed through: the result is read from fio's JSON"),
        ({"filename": "/dev/sda"}, "filename= is not passed through"),
        ({"write_lat_log": "x"}, "one-second series"),
        ({"group_reporting": 0}, "reported together"),
        ({"client": "h"}, "runs on the target's host"),
        ({"status-interval": 1}, "status-interval= is not passed through"),
        ({"unlink": 1}, "protection"),
        ({"thread": [1]}, "must be a string, a number, a size or a bool"),
        ({"--thread": 1}, "name of a fio option"),
        ({"thread=1 --filename": "/dev/sda"}, "name of a fio option"),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(BadFioJob) as caught:
        FioJob.of(**({"rw": "randread"} | wrong))  # type: ignore[arg-type]
    assert reason in str(caught.value)


def test_options_are_passed_through_as_fio_reads_them() -> None:
    argv = FioJob.of(
        "read", thread=True, norandommap=False, zonesize=Size(4096), percentage_random=5
    ).to_argv("block", ["/dev/a"])
    assert {"--thread=1", "--norandommap=0", "--zonesize=4096", "--percentage_random=5"} <= set(argv)


def test_time_based_can_be_switched_off() -> None:
    assert "--time_based=0" in FioJob.of("read", size="1m", time_based=False).to_argv("block", ["/dev/a"])


def test_quick_pace_shortens_the_run_and_says_so() -> None:
    job = FioJob.of("randread", "4k", numjobs=64, size="500m", runtime=300, ramp_time=20)
    quick, conditions = paced(job, Pace.QUICK, lays_out_files=True)
    assert (quick.runtime, quick.ramp_time) == (6, 1)
    assert quick.size is not None
    assert quick.size.bytes * 64 <= 1 << 30
    assert conditions == (
        "quick pace: runtime 300 s -> 6 s",
        "quick pace: ramp 20 s -> 1 s",
        "quick pace: size per job 500 MiB -> 16 MiB",
    )


def test_quick_pace_does_not_change_short_runs_or_sizes_on_devices() -> None:
    short = FioJob.of("read", "256k", size="1m", runtime=5)
    assert paced(short, Pace.QUICK, lays_out_files=True) == (short, ())
    big = FioJob.of("read", "256k", size="20g", runtime=5)
    assert paced(big, Pace.QUICK, lays_out_files=False) == (big, ())
    assert paced(big, Pace.FULL, lays_out_files=True) == (big, ())


@given(jobs=st.integers(1, 5000), bs=st.integers(512, 1 << 24), blocks=st.integers(1, 100_000))
def test_a_quick_size_is_whole_blocks_and_at_least_one(jobs: int, bs: int, blocks: int) -> None:
    job = FioJob.of("write", bs, numjobs=jobs, size=bs * blocks, direct=False)
    quick, _ = paced(job, Pace.QUICK, lays_out_files=True)
    assert quick.size is not None
    assert quick.size.bytes % bs == 0
    assert quick.size.bytes >= bs
    assert quick.size.bytes * jobs <= max(1 << 30, bs * jobs)


def test_an_unknown_pace_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"quick.*full"):
        Pace.named("slow")


def test_engines_that_run_programs_and_names_with_line_breaks_are_refused() -> None:
    for engine in ("exec", "external:/tmp/engine.o"):
        with pytest.raises(BadFioJob, match="runs a program"):
            FioJob.of("read", ioengine=engine)
    for engine in ("libaio\nexec_prerun=reboot", "lib\0aio", "", "a b"):
        with pytest.raises(BadFioJob, match="not the name of an engine"):
            FioJob.of("read", ioengine=engine)
    with pytest.raises(BadFioJob, match="overwrite"):
        FioJob.of("write", overwrite="yes")


def test_memory_is_that_of_the_io_in_flight() -> None:
    job = FioJob.of("read", "1m", iodepth=1024, numjobs=64)
    assert Size(128 << 30) < job.memory(2) < Size(129 << 30)
