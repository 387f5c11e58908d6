"""Little's law as a check: the table of a published review, the edges of runs, and the verdicts."""

import dataclasses
from statistics import fmean
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import IO2, M5, STRONG_MACHINE, run_of

from pytest_cloudbench import Inconclusive, Outcome, gp2
from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.comparison import outperforms
from pytest_cloudbench.verdicts.little import FAR, InFlight, in_flight, inconsistent
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view
from pytest_cloudbench.verdicts.steady import steady

EBS_VOLUMES, NVME_DISKS = 30, 8
# Workload, threads per device, then IOPS and mean latency in ms at the peak: over 30 EBS volumes, over 8 NVMe disks.
# The article gives threads for the first four; the others follow from the pairs themselves. Oracle's two pairs do not
# agree on one number: 29 by the EBS pair, 35 by the other.
PUBLISHED = [
    ("4K random read", 128, (64_047, 59.46), (2_802_904, 0.348)),
    ("4K random write", 64, (64_003, 29.97), (920_975, 0.545)),
    ("64K sequential read", 16, (17_360, 27.65), (244_037, 0.514)),
    ("64K sequential write", 8, (17_359, 13.8), (58_572, 1.08)),
    ("SQL", 32, (64_036, 14.93), (834_231, 0.302)),
    ("SQL 90-10", 32, (64_036, 14.99), (605_150, 0.415)),
    ("SQL 80-20", 32, (64_036, 14.93), (511_840, 0.493)),
    ("Oracle", 29, (64_036, 13.6), (457_372, 0.613)),
    ("Oracle 90-10", 22, (64_035, 10.3), (520_448, 0.333)),
    ("Oracle 80-20", 22, (64_036, 10.3), (435_265, 0.400)),
    ("VDI linked clone boot", 16, (42_893, 11.2), (349_799, 0.363)),
    ("VDI linked clone initial login", 8, (34_486, 6.95), (93_405, 0.677)),
    ("VDI linked clone Monday login", 16, (34_643, 13.85), (119_615, 1.1)),
]


def pairs(oracle_threads):
    for workload, threads, ebs, nvme in PUBLISHED:
        used = oracle_threads if workload == "Oracle" else threads
        for devices, (iops, latency_ms) in ((EBS_VOLUMES, ebs), (NVME_DISKS, nvme)):
            yield workload, devices, InFlight.of(used * devices, iops, latency_ms / 1000)


@pytest.mark.parametrize(("oracle_threads", "misprinted_on"), [(29, NVME_DISKS), (35, EBS_VOLUMES)])
def test_of_the_published_pairs_all_are_consistent_but_one_of_oracle_s(oracle_threads, misprinted_on):
    judged = list(pairs(oracle_threads))
    assert len(judged) == 26
    assert [(name, devices) for name, devices, found in judged if not found.consistent] == [
        ("Oracle", misprinted_on)
    ]


def test_the_good_pairs_lie_well_within_the_bound():
    worst = max(abs(found.found / found.asked - 1) for name, _, found in pairs(29) if name != "Oracle")
    assert worst < 0.05 < FAR


def test_the_sentence_names_all_three_figures():
    found = InFlight.of(3_840, 64_047, 0.05946)
    assert found.text == "3,808 I/Os in flight by Little's law (64,047 IOPS x 59 ms) of 3,840 asked (99.2 %)"


@given(
    asked=st.integers(1, 100_000),
    iops=st.floats(1, 5e6),
    share=st.floats(0.905, 1.095),
    runtime_s=st.floats(1, 10_000),
)
def test_figures_that_agree_are_consistent_however_large(asked, iops, share, runtime_s):
    assert InFlight.of(asked, iops, asked * share / iops, runtime_s=runtime_s).consistent


@given(asked=st.integers(2, 100_000), iops=st.floats(1, 5e6), share=st.floats(1.2, 50))
def test_more_in_flight_than_was_asked_is_never_consistent_in_a_long_run(asked, iops, share):
    for kept in (True, False):
        latency_s = asked * share / iops
        assert not InFlight.of(asked, iops, latency_s, runtime_s=latency_s * 50, kept=kept).consistent


@given(asked=st.integers(2, 100_000), iops=st.floats(1, 5e6), share=st.floats(0, 0.85))
def test_fewer_contradict_only_if_all_are_kept_in_flight(asked, iops, share):
    latency_s = asked * share / iops
    assert InFlight.of(asked, iops, latency_s, kept=False).consistent
    assert not InFlight.of(asked, iops, latency_s, runtime_s=latency_s * 100 + 1, kept=True).consistent


def test_a_run_that_is_short_beside_its_latency_has_wide_edges():
    assert InFlight.of(64, 200, 0.256, runtime_s=1.0).consistent
    assert not InFlight.of(64, 200, 0.256, runtime_s=60.0).consistent


@given(
    asked=st.integers(8, 256),
    rate=st.floats(500, 5_000),
    runtime_s=st.floats(1.5, 10),
    share=st.floats(0, 1),
)
def test_ios_that_a_stall_held_up_before_the_measurement_began_are_no_contradiction(
    asked, rate, runtime_s, share
):
    """On a busy machine 128 I/Os waited 0.8 s before 6 s of measurement: 145 seemed in flight."""
    waited = [share * runtime_s + (number + 1) / rate for number in range(asked)]
    latencies = waited + [asked / rate] * (int(runtime_s * rate) - asked)
    parts = vars(run_of(len(latencies) / runtime_s, outstanding=asked, series=False))
    parts |= {"runtime_s": runtime_s, "latency_mean_s": fmean(latencies)}
    known = SimpleNamespace(mean_s=fmean(latencies), max_s=max(latencies))
    assert inconsistent(view(SimpleNamespace(**parts, latency=known))) is None


def test_a_busy_generator_leaves_slots_empty():
    run = run_of(40_000, outstanding=64, generator=GeneratorLoad(70.0))
    half = dataclasses.replace(run, latency_mean_s=run.latency_mean_s * 0.4)
    assert inconsistent(view(half)) is None
    assert inconsistent(view(dataclasses.replace(half, generator=GeneratorLoad(5.0)))) is not None


def suspect(**how):
    run = run_of(80_000, **how)
    return dataclasses.replace(run, latency_mean_s=run.latency_mean_s / 4)


def test_verdicts_on_a_run_that_contradicts_itself_are_inconclusive_with_the_reason():
    run, ceiling = suspect(), suspect().envelope.ceilings[0]
    for verdict in (
        reaches(run, "80,000 IOPS"),
        reaches(run, "80,000 IOPS", share=0.9),
        capped_by(run, ceiling),
        outperforms(run, run_of(10_000)),
    ):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert not verdict.machine_limited
        assert "the measurement contradicts itself: 256 I/Os in flight by Little's law" in verdict.sentence
        assert "far fewer than the load keeps" in verdict.sentence
        with pytest.raises(Inconclusive):
            bool(verdict)


def test_more_than_there_can_be_is_said_so():
    run = dataclasses.replace(run_of(80_000, rate_asked=Iops(90_000.0)), latency_mean_s=0.1)
    assert "more than there can be" in str(reaches(run, "80,000 IOPS"))


def test_a_load_with_a_rate_of_its_own_has_fewer_in_flight_by_design():
    assert reaches(suspect(rate_asked=Iops(80_000.0)), "80,000 IOPS").outcome is Outcome.HELD


def test_a_good_run_and_one_without_latency_are_not_touched():
    good = run_of(80_000, volumes=IO2)
    assert in_flight(view(good)).consistent
    assert reaches(good, "80,000 IOPS").outcome is Outcome.HELD
    untimed = dataclasses.replace(good, latency_mean_s=float("nan"))
    assert in_flight(view(untimed)) is None
    assert reaches(untimed, "80,000 IOPS").outcome is Outcome.HELD
    assert reaches(good, "80,000 IOPS").details["outstanding"].startswith("1,024 I/Os in flight")


def test_the_machine_explains_too_few_in_flight_if_no_ceiling_held_the_rate():
    """64 processes on two emulated cores: those that wait for a core have nothing in flight."""
    machine = MachineLimits(Iops(60_000), Throughput.from_mib(4_000))
    run = run_of(2_083, block="256k", machine=machine, sequential=True, generator=GeneratorLoad(3.0))
    starved = dataclasses.replace(run, latency_mean_s=0.401)
    wrong = inconsistent(view(starved))
    assert wrong.machine_limited
    assert wrong.text.endswith(
        "835 I/Os in flight by Little's law (2,083 IOPS x 401 ms) of 1,024 asked (82 %), far fewer than the load "
        "keeps: its processes had to wait for the machine under the embedded region, no verdict can rest on it"
    )
    for verdict in (capped_by(starved, "2,264.98 MiB/s"), reaches(starved, "2,000 MiB/s"), steady(starved)):
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)


def test_too_few_in_flight_at_a_ceiling_or_without_such_a_machine_are_a_wrong_measurement():
    machine = MachineLimits(Iops(600_000), Throughput.from_mib(20_000))
    for run in (run_of(80_000, machine=machine), run_of(2_083, block="256k")):
        wrong = inconsistent(view(dataclasses.replace(run, latency_mean_s=run.latency_mean_s * 0.5)))
        assert not wrong.machine_limited
        assert wrong.text.endswith("far fewer than the load keeps: no verdict can rest on it")


def test_the_machine_explains_too_few_over_a_fall_only_if_no_level_is_promised():
    """The mean of a burst and what followed lies at no limit, and each of the two levels at one."""
    volumes = (("vol-0gp2", gp2(size_gib=100)),)

    def starved(values):
        run = run_of(sum(values) / len(values), values=values, volumes=volumes, on=M5, machine=STRONG_MACHINE)
        return inconsistent(view(dataclasses.replace(run, latency_mean_s=run.latency_mean_s / 4)))

    at_limits = starved([3_000] * 1_000 + [300] * 2_000)
    assert not at_limits.machine_limited
    assert at_limits.text.endswith("far fewer than the load keeps: no verdict can rest on it")
    assert starved([2_000] * 1_000 + [900] * 2_000).machine_limited
