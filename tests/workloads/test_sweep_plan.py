"""The plan of a sweep: steps, times, working set, arrivals, jobs, and fio's command line."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_cloudbench import Size
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.sweep.command import (
    Arrivals,
    Layout,
    arrival_rate,
    check_kernel_room,
    divided,
    layout,
    punctual,
    step_options,
)
from pytest_cloudbench.workloads.sweep.errors import BadSweep
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.named_mixes import MIXES
from pytest_cloudbench.workloads.sweep.plan import StepTimes, SweepPlan, WorkingSet, within_room

READS, WRITES, BOOT = MIXES["4k-random-read"], MIXES["4k-random-write"], MIXES["vdi-boot"]
GIB = 1 << 30


def plan(**how):
    return SweepPlan.of(READS, **how)


def test_the_default_is_the_documented_sweep():
    asked = plan()
    assert asked.steps == (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120)
    assert asked.working_set == WorkingSet(percent=12.0)
    assert asked.step == StepTimes(5, 60, 10)
    assert (
        str(plan(threads=128, latency_limit="20ms")) == "4k-random-read, 128 threads, 12 steps, up to 20 ms"
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"steps": [0, 50]}, "step 0: use 1 to 200 per cent"),
        ({"steps": [50, 201]}, "step 201: use 1 to 200"),
        ({"steps": [float("nan")]}, "step nan"),
        ({"steps": [True]}, "step True"),
        ({"steps": ["50"]}, "step '50'"),
        ({"steps": []}, "steps is empty"),
        ({"steps": "10, 20"}, "numbers of per cent"),
        ({"steps": 50}, "numbers of per cent"),
        ({"steps": [50, 50]}, "contains a step twice"),
        ({"threads": 0}, "threads=0: use a whole number from 1"),
        ({"threads": 1.5}, "threads=1.5"),
        ({"threads": True}, "threads=True"),
        ({"step_time": 1}, "step_time=1: use a whole number from 2"),
        ({"maximum_time": 0}, "maximum_time=0"),
        ({"ramp_time": -1}, "ramp_time=-1"),
        ({"latency_limit": "20"}, "latency_limit='20': '20' has no unit"),
        ({"latency_limit": 0.02}, "latency_limit=0.02"),
        ({"working_set": "0%"}, "working_set='0%'.* above 0 % and up to 100 %"),
        ({"working_set": "101%"}, "working_set='101%'.* above 0 % and up to 100 %"),
        ({"working_set": "much"}, "working_set='much': use a share such as '12%' or a size"),
        ({"working_set": None}, "working_set=None: use a share"),
    ],
)
def test_an_invalid_option_is_refused(how, words):
    with pytest.raises(BadSweep, match=words):
        plan(**how)


def test_steps_come_in_rising_order_and_need_not_be_whole():
    assert plan(steps=(100, 12.5, 50)).steps == (12.5, 50, 100)


def test_full_pace_changes_nothing():
    assert plan().paced(Pace.FULL) == (plan(), ())


def test_quick_pace_has_fewer_and_shorter_steps_and_notes_it():
    quick, said = plan().paced(Pace.QUICK)
    assert quick.steps == (10, 50, 90, 100, 120)
    assert (quick.step, quick.maximum) == (StepTimes(1, 2, None), StepTimes(2, 6, None))
    assert said == (
        "quick pace: steps 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120 % -> 10, 50, 90, 100, 120 %",
        "quick pace: step 5 + 60 s -> 1 + 2 s",
        "quick pace: maximum 5 + 60 s -> 2 + 6 s",
    )
    assert quick.length_s() < 34, "four such sweeps fit three minutes"


def test_quick_pace_does_not_change_a_short_sweep():
    asked = plan(steps=(10, 50, 100), step_time=2, maximum_time=4, ramp_time=1)
    quick, said = asked.paced(Pace.QUICK)
    assert said == ()
    assert (quick.steps, quick.step.length_s) == ((10, 50, 100), 3)


def test_a_step_at_the_limit_has_the_ramp_of_the_maximum():
    quick, _ = plan().paced(Pace.QUICK)
    assert [quick.times_of(percent).ramp_s for percent in (None, 10, 99, 100, 120)] == [2, 1, 1, 2, 2]


@given(begun=st.integers(0, 12))
def test_the_remaining_time_is_that_of_the_remaining_runs(begun):
    asked = plan()
    assert asked.length_s(begun) == pytest.approx(asked.length_s(0) * (13 - begun) / 13)


def test_a_working_set_is_a_share_or_a_size_of_each_device():
    device = Size(1000 * GIB)
    assert WorkingSet.of("12%").on(device, READS, 128) == Size(120 * GIB)
    assert WorkingSet.of("20g").on(device, READS, 128) == Size(20 * GIB)
    assert WorkingSet.of(Size(GIB)).on(device, READS, 128) == Size(GIB)
    assert (str(WorkingSet.of("12.5%")), str(WorkingSet.of("20g"))) == ("12.5 %", "20 GiB")


def test_too_small_a_device_is_refused():
    with pytest.raises(BadSweep, match="working_set=20 GiB exceeds the device, which has 10 GiB"):
        WorkingSet.of("20g").on(Size(10 * GIB), READS, 1)
    with pytest.raises(
        BadSweep, match="too small for 128 threads of mix vdi-boot: 8 blocks of 64 KiB for each need 64 MiB"
    ):
        WorkingSet.of("1%").on(Size(GIB), BOOT, 128)


@given(device=st.integers(1, 1 << 44), percent=st.floats(0.01, 100), threads=st.integers(1, 4096))
def test_a_working_set_fits_its_device_and_threads_or_is_refused(device, percent, threads):
    try:
        found = WorkingSet(percent=percent).on(Size(device), BOOT, threads)
    except BadSweep:
        return
    assert found.bytes <= device * percent / 100 + 1
    assert found.bytes >= threads * BOOT.largest_block.bytes * 8
    assert found.bytes % (1 << 20) == 0


def test_the_written_set_is_small_if_a_machine_stores_the_data():
    sets = [Size(120 * GIB)] * 30
    assert within_room(sets, None, WRITES, 64) is None
    assert within_room(sets, Size(10 * GIB), READS, 64) is None
    cut = within_room(sets, Size(10 * GIB), WRITES, 64)
    assert cut == Size(34 << 20)
    assert cut.bytes * 30 <= GIB
    assert within_room([Size(1 << 20)], Size(10 * GIB), WRITES, 1) is None, "smaller already"
    with pytest.raises(BadSweep, match=r"room for only 1 GiB: .*--cloudbench-twin-backing"):
        within_room(sets, Size(GIB), BOOT, 128)


@given(total=st.floats(50, 2e6), jobs=st.integers(1, 64), reads=st.integers(0, 100))
def test_the_rates_of_all_jobs_add_up_to_the_requested_rate(total, jobs, reads):
    shares = [share for share in (reads, 100 - reads) if share]
    each = [total * share / 100 / jobs for share in shares]
    assume(min(each) >= 1 and max(each) <= 200_000)
    found = divided(total, jobs, reads)
    assert len(found) == jobs
    got = sum(arrival_rate(one.reads) for one in found if one.reads)
    got += sum(arrival_rate(one.writes) for one in found if one.writes)
    # One job cannot time its arrivals more finely than in steps of a microsecond; many share the difference.
    coarse = max(rate * rate / 1e6 for rate in each)
    assert got == pytest.approx(total, rel=0.002, abs=len(shares) * (coarse + 1))
    assert all(
        (one.reads is None) == (reads == 0) and (one.writes is None) == (reads == 100) for one in found
    )


def test_thirty_volumes_get_the_requested_rate_within_a_thousandth():
    for percent in range(10, 130, 10):
        found = divided(640.0 * percent, 30, 100)
        assert sum(arrival_rate(one.reads) for one in found) == pytest.approx(640 * percent, rel=0.001)


@pytest.mark.parametrize(("total", "jobs"), [(10, 30), (0.5, 1), (1e6, 1)])
def test_rates_that_no_job_can_produce_are_refused(total, jobs):
    with pytest.raises(BadSweep, match=r"less than 1 for each|more than one fio job can time"):
        divided(total, jobs, 100)


@given(
    threads=st.integers(1, 512), devices=st.integers(1, 40), cpus=st.integers(1, 128), rate=st.floats(0, 3e6)
)
def test_jobs_times_depth_equals_threads(threads, devices, cpus, rate):
    found = layout(READS, threads=threads, devices=devices, cpus=cpus, rate=rate)
    assert found.jobs * found.depth == threads
    assert 1 <= found.jobs <= 16


def test_a_device_has_one_job_or_more_for_processors_or_rates():
    assert layout(READS, threads=128, devices=30, cpus=2) == Layout(1, 128)
    assert layout(READS, threads=128, devices=30, cpus=72) == Layout(2, 64)
    assert layout(READS, threads=128, devices=1, cpus=2, rate=300_000) == Layout(8, 16)
    assert layout(BOOT, threads=16, devices=1, cpus=72) == Layout(1, 16), "some of it follows the I/O before"


def test_more_io_in_flight_than_the_kernel_allows_is_refused():
    check_kernel_room(3_840, 65_536, 0)
    with pytest.raises(
        BadSweep, match=r"70,000 I/Os in flight .* 65,000 .* of fs.aio-max-nr=65,536.*sysctl -w"
    ):
        check_kernel_room(70_000, 65_536, 536)


def argv(mix, arrivals=None, jobs=1, paths=("/dev/nvme1n1", "/dev/nvme2n1")):
    shape = Layout(jobs, 16)
    sized = [(path, Size(GIB)) for path in paths]
    return ("fio", *step_options(mix, shape, sized, StepTimes(1, 2, None), arrivals))


def test_a_closed_loop_on_two_devices():
    words = argv(READS)
    assert words[words.index("--name=job0") :] == (
        "--name=job0", "--filename=/dev/nvme1n1", f"--size={GIB}",
        "--name=job1", "--filename=/dev/nvme2n1", f"--size={GIB}",
    )  # fmt: skip
    for word in (
        "--readonly",
        "--rw=randread",
        "--bs=4096",
        "--iodepth=16",
        "--runtime=3",
        "--group_reporting",
    ):
        assert word in words
    assert "--allow_file_create=0" in words
    assert not any(word.startswith(("--rate", "--ramp", "--rwmixread")) for word in words)
    assert "--numjobs=4" in argv(READS, jobs=4)


def test_open_arrivals_have_a_job_for_each_rate():
    words = argv(
        READS, [Arrivals(100, None), Arrivals(101, None), Arrivals(100, None), Arrivals(99, None)], jobs=2
    )
    assert "--rate_process=poisson" in words
    assert [word for word in words if word.startswith("--rate_iops")] == [
        "--rate_iops=100,", "--rate_iops=101,", "--rate_iops=100,", "--rate_iops=99,"
    ]  # fmt: skip
    assert [word for word in words if word.startswith("--filename")] == [
        "--filename=/dev/nvme1n1", "--filename=/dev/nvme1n1", "--filename=/dev/nvme2n1", "--filename=/dev/nvme2n1"
    ]  # fmt: skip


def test_a_mix_as_fio_options():
    words = argv(BOOT, [Arrivals(85, 15), Arrivals(85, 15)])
    for word in (
        "--rw=randrw",
        "--bssplit=4096/30:8192/10:16384/15:32768/20:65536/25",
        "--rwmixread=85",
        "--percentage_random=70",
        "--random_distribution=zoned:80/20:20/80",
        "--norandommap",
        "--rate_iops=85,15",
    ):
        assert word in words
    assert "--readonly" not in words
    assert "--rate_iops=,15" in argv(WRITES, [Arrivals(None, 15)] * 2)


def test_a_sequential_mix_has_no_random_options():
    words = argv(Mix.of("log", {"64k": 100}, read_percent=50, random_percent=0, source="our own"))
    assert "--rw=rw" in words
    assert not any("rand" in word for word in words)


def test_fio_starts_in_the_real_time_class_if_permitted():
    assert punctual(("fio", "--a b"))[-2:] == ("fio", "--a b")
    assert punctual(("fio",))[0] == "sh"
