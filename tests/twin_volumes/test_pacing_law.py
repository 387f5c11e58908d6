"""The law by which volumes answer, in virtual time: both implementations."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from statistics import fmean

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from virtual_time import FULL, Bench, Load, in_a_row, scattered, volume_state

from pytest_cloudbench.limits.volume_types import ServiceTime
from pytest_cloudbench.twin.volumes.figures import Burst, Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.pacing import BURST_S
from pytest_cloudbench.twin.volumes.volume_process import undisturbed

KIB, MIB = 1024, 1024**2
UNIT = 256 * KIB
START = 1000.0


def held(iops=math.inf, size=math.inf, **more):
    return VolumeFigures(UNIT, limits=StageFigures(Limit(iops), Limit(size)), **more)


def hdd(size, burst=None, **more):
    return VolumeFigures(MIB, limits=StageFigures(bytes=Limit(size, burst)), whole_units=True, **more)


def times(answers):
    return [answer.due - START for answer in answers]


class TestRates:
    @pytest.mark.parametrize("depth", [16, 256])
    @pytest.mark.parametrize("iops", [100, 3000, 80_000])
    def test_any_window_holds_the_limit_within_the_burst(self, bench, iops, depth):
        load = Load(bench.volume(held(iops)), depth, scattered())
        (answers,) = bench.run(max(0.5, 200 / iops), load)
        dues = times(answers)
        for window in (0.005, 0.05, 0.5):
            for start in dues[:: max(1, len(dues) // 200)]:
                found = bisect_right(dues, start + window) - bisect_left(dues, start)
                assert found <= (window + BURST_S) * iops + 2
        assert len(dues) == pytest.approx(iops * max(0.5, 200 / iops), rel=0.01, abs=BURST_S * iops + 2)

    @pytest.mark.parametrize("depth", [1, 4, 64, 1024])
    def test_littles_law_holds_at_every_percentile(self, bench, depth):
        """At a limit, each of N requests in flight takes N divided by the rate."""
        iops = 10_000
        load = Load(bench.volume(held(iops)), depth, scattered())
        (answers,) = bench.run(2.0, load)
        steady = sorted(answer.due - answer.arrival for answer in answers if answer.due > START + 0.5)
        for share in (0.0, 0.01, 0.5, 0.99, 0.999, 1.0):
            found = steady[min(len(steady) - 1, int(share * len(steady)))]
            assert found == pytest.approx(depth / iops, abs=1e-9)

    def test_reads_and_writes_share_one_budget(self, bench):
        node = bench.volume(held(5000))
        reads, writes = bench.run(2.0, Load(node, 8, scattered()), Load(node, 8, scattered(write=True)))
        assert len(reads) + len(writes) == pytest.approx(10_000, rel=0.001)
        assert len(reads) == pytest.approx(len(writes), rel=0.01)

    def test_writes_with_limits_of_their_own_leave_reads_alone(self, bench):
        figures = held(4000, writes=StageFigures(Limit(1000)))
        node = bench.volume(figures)
        reads, writes = bench.run(1.0, Load(node, 8, scattered()), Load(node, 8, scattered(write=True)))
        assert (len(reads), len(writes)) == (pytest.approx(4000, abs=12), pytest.approx(1000, abs=12))
        bench.settle()
        bench.pacer.limit_volume(node, held(4000), FULL, bench.now)
        (writes,) = bench.run(1.0, Load(node, 8, scattered(write=True)))
        assert len(writes) == pytest.approx(4000, abs=12)

    def test_bytes_are_limited_too(self, bench):
        node = bench.volume(held(10_000, 100 * MIB))
        (large,) = bench.run(2.0, Load(node, 16, scattered(128 * KIB)))
        assert sum(answer.size for answer in large) == pytest.approx(200 * MIB, rel=0.01)
        bench.settle()
        (small,) = bench.run(1.0, Load(node, 16, scattered()))
        assert len(small) == pytest.approx(10_000, rel=0.01)

    def test_three_volumes_share_an_instance_limit_equally(self, bench):
        bench.pacer.limit_instance(StageFigures(Limit(9000)), FULL, START)
        nodes = [bench.volume(held(iops), node=node) for node, iops in ((2, 8000), (3, 8000), (4, 50_000))]
        loads = [Load(node, 32, scattered()) for node in nodes]
        bench.run(1.0, *loads)
        counts = [len(load.answers) for load in loads]
        assert sum(counts) == pytest.approx(9000, rel=0.01)
        assert all(found == pytest.approx(3000, rel=0.03) for found in counts)

    def test_a_volume_below_its_share_of_the_instance_keeps_its_own_rate(self, bench):
        bench.pacer.limit_instance(StageFigures(Limit(9000)), FULL, START)
        slow, fast = (bench.volume(held(iops), node=node) for node, iops in ((2, 1000), (3, 20_000)))
        counts = [
            len(found) for found in bench.run(1.0, Load(slow, 16, scattered()), Load(fast, 64, scattered()))
        ]
        assert counts == [pytest.approx(1000, abs=20), pytest.approx(8000, rel=0.01)]

    def test_a_changed_limit_holds_from_the_next_request_on(self, bench):
        node = bench.volume(held(1000))
        bench.run(1.0, Load(node, 4, scattered()))
        bench.pacer.limit_volume(node, held(4000), FULL, bench.now)
        bench.settle()
        (answers,) = bench.run(1.0, Load(node, 4, scattered()))
        assert len(answers) == pytest.approx(4000, rel=0.01)

    def test_no_limit_means_no_wait(self, bench):
        node = bench.volume()
        bench.pacer.arrive(node, START, 0, 4096, False, unique=7, problem=5)
        assert bench.pacer.next_event() == START
        assert tuple(bench.pacer.take_due(START)) == (START, node, START, 4096, False, 0, 7, 5)
        assert bench.pacer.take_due(START) is None
        assert bench.pacer.next_event() == math.inf


class TestServiceTimes:
    SERVICE = ServiceTime(600e-6, 0.25, 1024**3, sequential_s=200e-6, write_s=300e-6)

    def test_depth_one_takes_the_service_time_on_average(self, bench):
        node = bench.volume(held(service=self.SERVICE), path_s=50e-6)
        (answers,) = bench.run(4096 * 550e-6, Load(node, 1, scattered()))
        taken = [answer.due - answer.arrival for answer in answers[:4096]]
        assert fmean(taken) == pytest.approx(550e-6, rel=0.002)
        figures = bench.pacer.figures(node, bench.now)
        assert figures.modelled_s / figures.answered == pytest.approx(600e-6, rel=0.002)

    def test_writes_sequences_and_size_have_times_of_their_own(self, bench):
        service = ServiceTime(600e-6, 0.0, 1024**3, sequential_s=200e-6, write_s=300e-6)
        node = bench.volume(held(service=service))

        def taken(*places):
            (answers,) = bench.run(1.0, Load(node, 1, places))
            return [answer.due - answer.arrival for answer in answers]

        assert taken((0, 4096, False), (4096, 4096, False)) == pytest.approx([600e-6, 200e-6])
        assert taken((0, 4096, True)) == pytest.approx([300e-6])
        assert taken((MIB, MIB, False)) == pytest.approx([600e-6 + (MIB - 16 * KIB) / 1024**3])

    def test_the_service_time_is_hidden_by_a_longer_wait(self, bench):
        node = bench.volume(held(1000, service=self.SERVICE))
        (answers,) = bench.run(1.0, Load(node, 16, scattered()))
        assert len(answers) == pytest.approx(1000, rel=0.01)


class TestCredits:
    @pytest.mark.parametrize("start", [1.0, 12_345.678, 3e6])
    @pytest.mark.parametrize("factor", [1.0, 60.0])
    @pytest.mark.parametrize("sizes", [(4 * KIB,), (512 * KIB, 4 * KIB), (4 * KIB, 4 * KIB, MIB)])
    def test_credits_end_at_the_arithmetic_moment(self, engine, start, factor, sizes):
        """Full, a bucket lasts capacity / (spend - refill) / factor seconds; then what refills lasts."""
        bench = Bench(engine, now=start)
        burst = Burst(capacity=2900 * factor, refill=100, spend=3000, factor=factor)
        node = bench.volume(VolumeFigures(UNIT, limits=StageFigures(Limit(3000, burst))))
        places = ((number * 7 * MIB, sizes[number % len(sizes)], False) for number in range(10**6))
        (answers,) = bench.run(10.0, Load(node, 32, places))
        served = {}
        for answer in answers:
            second = int(answer.due - start)
            served[second] = served.get(second, 0) + -(-answer.size // UNIT)
        assert served[0] == pytest.approx(3000, rel=0.01)
        late = [answer for answer in answers if answer.due > start + 1.1]
        units = sum(-(-answer.size // UNIT) for answer in late)
        assert units == pytest.approx(8.9 * 100, abs=10)

    def test_a_refilled_bucket_bursts_again(self, bench):
        burst = Burst(capacity=500, refill=100, spend=1000)
        node = bench.volume(VolumeFigures(UNIT, limits=StageFigures(Limit(1000, burst))), levels=(0.0, None))
        assert bench.pacer.levels(node, START)[0] == 0.0
        assert bench.pacer.levels(node, START + 2)[0] == pytest.approx(200)
        assert bench.pacer.levels(node, START + 100)[0] == 500
        bench.now = START + 2
        (answers,) = bench.run(1.0, Load(node, 8, scattered()))
        assert len(answers) == pytest.approx(200 + 100, abs=4)
        assert bench.pacer.levels(node, bench.now)[0] == pytest.approx(0, abs=1)

    @pytest.mark.parametrize("factor", [1.0, 60.0])
    def test_waiting_requests_have_not_used_credits_yet(self, bench, factor):
        """16 MiB are queued at 12 MiB/s: the level falls with what has left the queue."""
        burst = Burst(80.0 * MIB * factor, 4 * MIB, 12 * MIB, factor=factor)
        node = bench.volume(hdd(12 * MIB, burst))
        load = Load(node, 16, in_a_row(MIB))
        for second in range(1, 9):
            bench.run(1.0, load)
            expected = (80 - 8 * second) * MIB * factor
            assert bench.pacer.levels(node, bench.now)[1] == pytest.approx(expected, abs=1.1 * MIB * factor)
            load.depth = 0

    @pytest.mark.parametrize("factor", [1.0, 60.0])
    def test_requests_waiting_for_the_instance_have_not_used_credits_yet(self, bench, factor):
        burst = Burst(80.0 * MIB * factor, 4 * MIB, 12 * MIB, factor=factor)
        bench.pacer.limit_instance(StageFigures(bytes=Limit(12 * MIB, burst)), FULL, START)
        bench.run(4.0, Load(bench.volume(), 16, in_a_row(MIB)))
        level = bench.pacer.levels(None, bench.now)[1]
        assert level == pytest.approx((80 - 8 * 4) * MIB * factor, abs=1.1 * MIB * factor)

    def test_a_changed_bucket_is_charged_for_waiting_requests(self, bench):
        burst = Burst(1000, 10, 100)
        node = bench.volume(VolumeFigures(UNIT, limits=StageFigures(Limit(100, burst))))
        for number in range(101):
            bench.pacer.arrive(node, START, number * 7 * MIB, 4096, False)
        figures = VolumeFigures(UNIT, limits=StageFigures(Limit(200, Burst(2000, 10, 200))))
        bench.pacer.limit_volume(node, figures, (500.0, None), START)
        assert bench.pacer.levels(node, START)[0] == 500
        bench.settle()
        assert bench.pacer.levels(node, START + 1)[0] == pytest.approx(500 - 100 + 10)

    def test_dropped_requests_wait_no_more(self, bench):
        burst = Burst(1000, 10, 100)
        node = bench.volume(VolumeFigures(UNIT, limits=StageFigures(Limit(100, burst))))
        for number in range(101):
            bench.pacer.arrive(node, START, number * 7 * MIB, 4096, False)
        assert bench.pacer.levels(node, START)[0] == 999
        bench.pacer.drop(node)
        assert bench.pacer.levels(node, START)[0] == 1000 - 101

    def test_limits_without_burst_have_no_level(self, bench):
        node = bench.volume(held(1000))
        assert all(map(math.isnan, bench.pacer.levels(node, START)))
        assert all(map(math.isnan, bench.pacer.levels(None, START)))

    def test_an_instance_bursts_in_ios_and_in_bytes(self, bench):
        figures = StageFigures(
            Limit(2000, Burst(capacity=1000, refill=1000, spend=2000)),
            Limit(100 * MIB, Burst(capacity=50.0 * MIB, refill=50 * MIB, spend=100 * MIB)),
        )
        bench.pacer.limit_instance(figures, FULL, START)
        node = bench.volume()
        (answers,) = bench.run(3.0, Load(node, 16, scattered(64 * KIB)))
        assert sum(answer.due <= START + 1 for answer in answers) == pytest.approx(1600, abs=4)
        assert sum(answer.due > START + 2 for answer in answers) == pytest.approx(800, abs=4)
        iops, size = bench.pacer.levels(None, bench.now)
        assert size == pytest.approx(0, abs=MIB)
        # 1,600 I/Os a second drain 600 a second, 800 refill 200 a second.
        assert iops == pytest.approx(400 + 400, abs=20)

    def test_a_load_below_the_baseline_earns_the_least_gain_unless_it_waited(self, bench):
        burst = Burst(capacity=10_000, refill=1000, spend=3000, least_gain=50)
        bench.pacer.limit_instance(StageFigures(Limit(3000, burst)), (0.0, None), START)
        node = bench.volume()
        for number in range(1000):
            bench.pacer.arrive(node, START + number / 1000, number * 7 * MIB, 4096, False)
            bench.settle()
        bench.pacer.earn(START + 1)
        assert bench.pacer.levels(None, START + 1)[0] == pytest.approx(50, abs=1.5)
        bench.now = START + 1
        bench.run(1.0, Load(node, 64, scattered()))
        before = bench.pacer.levels(None, bench.now)[0]
        bench.pacer.earn(bench.now)
        assert bench.pacer.levels(None, bench.now)[0] == before

    @given(
        sizes=st.lists(st.sampled_from([4 * KIB, 300 * KIB, MIB]), min_size=1, max_size=5),
        refill=st.integers(50, 900),
        factor=st.sampled_from([1.0, 7.0]),
    )
    def test_more_than_bucket_and_refill_is_never_served(self, engine, sizes, refill, factor):
        bench = Bench(engine)
        burst = Burst(capacity=200 * factor, refill=refill, spend=1000, factor=factor)
        node = bench.volume(VolumeFigures(UNIT, limits=StageFigures(Limit(1000, burst))))
        places = ((number * 7 * MIB, sizes[number % len(sizes)], False) for number in range(10**6))
        (answers,) = bench.run(2.0, Load(node, 8, places))
        units = [-(-answer.size // UNIT) for answer in answers]
        assert sum(units) <= 200 + refill * (2.0 + BURST_S) + 2 * max(units)


class TestUnits:
    """How many I/Os are counted: the budget takes 1 ms for each."""

    @pytest.fixture
    def count(self, bench):
        def count(places, unit=UNIT, *, merging=True):
            node = bench.volume(VolumeFigures(unit, merging=merging, limits=StageFigures(Limit(1000))))
            for offset, size, write in places:
                bench.pacer.arrive(node, START, offset, size, write)
            # What was counted too many is given back to later I/Os.
            for number in range(1000):
                bench.pacer.arrive(node, START, 2**50 + number * 7 * MIB, 4096, False)
            last = bench.pacer.drop(node)[-1]
            bench.pacer.remove(node)
            return round((last[0] - START + BURST_S) * 1000) - 999

        return count

    def test_eight_of_32_kib_in_a_row_are_one_and_at_random_eight(self, count):
        assert count((number * 32 * KIB, 32 * KIB, False) for number in range(8)) == 1
        assert count((place * 8 * MIB, 32 * KIB, False) for place in (3, 0, 6, 1, 7, 4, 2, 5)) == 8

    def test_one_of_1024_kib_is_four_on_ssd_and_one_on_hdd(self, count):
        assert count([(8 * MIB, MIB, False), (16 * MIB, MIB, True)]) == 8
        assert count([(24 * MIB, MIB, False)], MIB) == 1

    def test_a_unit_of_16_kib_merges_nothing(self, count):
        places = [(number * 4 * KIB, 4 * KIB, False) for number in range(10)]
        assert (
            count([*places, (MIB, 64 * KIB, False), (2 * MIB, 24 * KIB, False)], 16 * KIB, merging=False)
            == 16
        )

    def test_streams_side_by_side_merge_each_for_itself(self, count):
        places = [
            (stream * 4 * MIB + number * 4 * KIB, 4 * KIB, False)
            for number in range(64)
            for stream in range(16)
        ]
        assert count(places) == 16

    def test_reads_do_not_continue_writes(self, count):
        assert count((number * 4 * KIB, 4 * KIB, number % 2 == 0) for number in range(8)) == 8

    def test_two_continuations_alone_do_not_merge(self, count):
        assert (
            count((at * MIB + number * 4 * KIB, 4 * KIB, False) for at in (1, 9, 30) for number in range(3))
            == 9
        )

    @pytest.mark.parametrize("size", [math.inf, 300 * MIB])
    @pytest.mark.parametrize("depth", [1, 8, 32, 100])
    def test_runs_of_eight_times_32_kib_reach_eight_times_the_rate(self, bench, depth, size):
        node = bench.volume(held(1000, size))
        places = (
            ((number // 8 * 7 + 1) * MIB + number % 8 * 32 * KIB, 32 * KIB, False) for number in range(10**6)
        )
        (answers,) = bench.run(2.0, Load(node, depth, places))
        assert len(answers) == pytest.approx(16_000, rel=0.02)
        assert bench.pacer.figures(node, bench.now).volume_throughput_exceeded_s < 0.2

    def test_a_continuation_after_a_second_begins_a_unit(self, bench):
        node = bench.volume(held(10))
        for number in range(40):
            bench.pacer.arrive(node, START + number, number * 4 * KIB, 4 * KIB, False)
            assert bench.pacer.take_due(START + number) is not None

    @pytest.mark.parametrize(
        ("region", "size"), [(4 * MIB, 64 * KIB), (16 * MIB, 64 * KIB), (16 * MIB, 4 * KIB)]
    )
    def test_random_io_on_a_small_area_is_not_counted_as_sequential(self, count, region, size):
        places = random.Random(7)
        found = count((places.randrange(region // size) * size, size, False) for _ in range(8_000))
        assert 0.98 * 8_000 <= found <= 8_000

    @pytest.mark.parametrize("jobs", [1, 16])
    def test_a_small_file_read_in_a_row_again_and_again_merges(self, count, jobs):
        rows = [
            (job * 4 * MIB + place, 16 * KIB, False)
            for _ in range(3)
            for place in range(0, 2 * MIB, 16 * KIB)
            for job in range(jobs)
        ]
        assert count(rows) == 3 * jobs * 8

    @given(
        runs=st.lists(
            st.tuples(
                st.integers(0, 31),  # where it begins, in 2 MiB
                st.sampled_from([4, 8, 12, 20, 32, 64, 124, 128]),  # KiB an I/O
                st.integers(1, 12),  # I/Os in a row
                st.booleans(),
            ),
            min_size=1,
            max_size=12,
            unique_by=lambda run: run[0],
        )
    )
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_mixture_of_runs_is_counted_by_the_rule(self, count, runs):
        """A separate run of up to three counts I/O by I/O, a longer one by the units that it fills."""
        places, expected = [], 0
        for place, kib, times, write in runs:
            places += [(place * 2 * MIB + number * kib * KIB, kib * KIB, write) for number in range(times)]
            expected += -(-times * kib * KIB // UNIT) if times > 3 else times
        assert count(places) == expected


class TestHardDisks:
    def test_random_small_io_takes_whole_units(self, bench):
        node = bench.volume(hdd(40 * MIB))
        (answers,) = bench.run(10.0, Load(node, 8, scattered()))
        assert len(answers) == pytest.approx(400, abs=2)
        figures = bench.pacer.figures(node, bench.now)
        assert figures.volume_iops_exceeded_s == pytest.approx(10, rel=0.01)
        assert figures.volume_throughput_exceeded_s == 0

    def test_sequential_io_moves_the_full_throughput(self, bench):
        node = bench.volume(hdd(40 * MIB))
        (answers,) = bench.run(10.0, Load(node, 8, in_a_row(64 * KIB)))
        assert sum(answer.size for answer in answers) == pytest.approx(400 * MIB, rel=0.01)
        figures = bench.pacer.figures(node, bench.now)
        assert figures.volume_throughput_exceeded_s == pytest.approx(10, rel=0.01)

    def test_throughput_credits_count_whole_units(self, bench):
        burst = Burst(capacity=1000.0 * MIB, refill=40 * MIB, spend=240 * MIB)
        node = bench.volume(hdd(240 * MIB, burst))
        (answers,) = bench.run(10.0, Load(node, 8, scattered()))
        assert sum(answer.due <= START + 5 for answer in answers) == pytest.approx(1200, abs=10)
        assert sum(answer.due > START + 5 for answer in answers) == pytest.approx(200, abs=10)


class TestFirstTouch:
    PIECE = 64 * KIB

    def test_pieces_are_fetched_at_their_rate(self, bench):
        node = bench.volume(held(touch_per_s=800), pieces=4096, untouched=4096)
        places = ((number * self.PIECE, 4096, False) for number in range(4096))
        (answers,) = bench.run(2.0, Load(node, 32, places))
        assert len(answers) == pytest.approx(1600, abs=2)
        assert bench.states[node].untouched == pytest.approx(4096 - 1632, abs=2)

    def test_a_piece_is_fetched_once(self, bench):
        node = bench.volume(held(touch_per_s=800), pieces=16, untouched=16)
        first, again = (bench.run(1.0, Load(node, 1, [(0, self.PIECE, False)]))[0] for _ in range(2))
        assert first[0].due - first[0].arrival == pytest.approx(1 / 800)
        assert again[0].due == again[0].arrival

    def test_only_whole_pieces_are_written_without_a_fetch(self, bench):
        node = bench.volume(held(touch_per_s=800), pieces=16, untouched=16)
        places = [(0, 2 * self.PIECE, True), (4 * self.PIECE, 4096, True)]
        (answers,) = bench.run(1.0, Load(node, 1, places))
        assert [answer.due - answer.arrival for answer in answers] == pytest.approx([0, 1 / 800])
        assert bench.states[node].untouched == 13

    def test_an_untouched_piece_is_written_at_its_share_of_the_rate(self, bench):
        node = bench.volume(held(1000, touch_share=0.5), pieces=1000, untouched=500)
        places = [(number * self.PIECE, self.PIECE, True) for number in range(0, 1000, 2)]
        (answers,) = bench.run(10.0, Load(node, 1, places))
        assert times(answers)[249] == pytest.approx(0.5, abs=0.004)
        assert times(answers)[-1] == pytest.approx(0.75, abs=0.004)

    @pytest.mark.parametrize(
        ("size", "write", "takes_s"),
        [(128 * 1024, True, 4.0), (64 * 1024, True, 1.0), (128 * 1024, False, 1.0)],
    )
    def test_a_planted_weakness_slows_writes_above_64_kib_only(self, bench, size, write, takes_s):
        node = bench.volume(held(100, large_write_share=0.25), pieces=1)
        (answers,) = bench.run(10.0, Load(node, 1, [(number * MIB, size, write) for number in range(100)]))
        assert times(answers)[-1] == pytest.approx(takes_s, abs=0.05)

    def test_pieces_behind_the_end_count_as_used(self, bench):
        node = bench.volume(held(touch_per_s=800), pieces=8, untouched=8)
        bench.run(1.0, Load(node, 1, [(7 * self.PIECE, MIB, False), (2**40, MIB, False)]))
        assert bench.states[node].untouched == 7


class TestFigures:
    def test_waiting_counts_once_however_many_wait(self, bench):
        node = bench.volume(held(100))
        bench.run(5.0, Load(node, 64, scattered()))
        figures = bench.pacer.figures(node, bench.now)
        assert figures.volume_iops_exceeded_s == pytest.approx(5, abs=0.05)
        assert figures.queue_length == 64
        assert figures.read_ops == figures.answered == pytest.approx(500, abs=2)
        assert figures.read_bytes == 4096 * figures.read_ops

    def test_each_limit_has_its_own_seconds(self, bench):
        bench.pacer.limit_instance(StageFigures(Limit(500), Limit(10 * MIB)), FULL, START)
        node = bench.volume(held(10_000, 20 * MIB))

        def waited(places):
            before = bench.pacer.figures(node, bench.now)
            bench.run(1.0, Load(node, 64, places))
            after = bench.pacer.figures(node, bench.now)
            bench.settle()
            bench.now += 1
            return [
                round(found - earlier, 1) for found, earlier in zip(after[6:10], before[6:10], strict=True)
            ]

        assert waited(scattered()) == [0.0, 0.0, 1.0, 0.0]
        assert waited(scattered(MIB))[3] == 1.0

    def test_writes_are_counted_apart(self, bench):
        node = bench.volume()
        bench.run(1.0, Load(node, 1, [(0, 4096, True), (8192, 8192, True), (0, 4096, False)]))
        assert bench.pacer.figures(node, bench.now)[:4] == (1, 2, 4096, 12_288)

    def test_a_late_answer_counts_as_this_machines_delay(self, bench):
        node = bench.volume(held(100))
        for number in range(2):
            bench.pacer.arrive(node, START, number * MIB, 4096, False)
        for _ in range(2):
            bench.pacer.done(bench.pacer.take_due(START + 1), START + 1)
        figures = bench.pacer.figures(node, START + 1)
        assert figures.modelled_s == pytest.approx(0.009)
        assert figures.late_s == pytest.approx(1 + 0.991)
        assert figures.read_time_s == pytest.approx(2)

    def test_a_late_request_does_not_delay_earlier_ones(self, bench):
        """The instance's limit counts in the order of the model, also if this machine is late."""
        bench.pacer.limit_instance(StageFigures(Limit(1000)), FULL, START)
        node, other = bench.volume(held(100)), bench.volume(node=3)
        for number in range(2):
            bench.pacer.arrive(node, START, number * MIB, 4096, False)
        now = START + 3
        bench.pacer.arrive(other, now, 0, 4096, False)
        while (found := bench.pacer.take_due(now)) is not None:
            bench.pacer.done(found, now)
        figures = bench.pacer.figures(node, now)
        assert figures.late_s == pytest.approx(3 + 2.991)
        assert figures.instance_iops_exceeded_s == 0
        assert bench.pacer.figures(other, now).late_s == 0


class TestUnpaced:
    def test_everything_is_due_at_once_and_uses_up_nothing(self, bench):
        burst = Burst(capacity=1000, refill=10, spend=100)
        node = bench.volume(
            VolumeFigures(UNIT, limits=StageFigures(Limit(100, burst))), pieces=16, untouched=16
        )
        bench.pacer.paced = False
        (answers,) = bench.run(
            1.0, Load(node, 4, [(place % 16 * 64 * KIB, 4096, True) for place in range(5000)])
        )
        assert len(answers) == 5000
        assert all(answer.due == answer.arrival for answer in answers)
        assert bench.states[node].untouched == 0
        figures = bench.pacer.figures(node, bench.now)
        assert (figures.write_ops, figures.answered, figures.volume_iops_exceeded_s) == (5000, 0, 0)
        assert bench.pacer.levels(node, bench.now)[0] == 1000
        bench.pacer.paced = True
        (answers,) = bench.run(1.0, Load(node, 4, scattered()))
        assert len(answers) == pytest.approx(100, abs=2)

    def test_waiting_requests_become_due_at_once(self, bench):
        node = bench.volume(held(1))
        for number in range(10):
            bench.pacer.arrive(node, START, number * MIB, 4096, False, number)
        bench.pacer.paced = False
        assert [bench.pacer.take_due(START)[6] for _ in range(10)] == list(range(10))
        assert bench.pacer.take_due(START) is None


class TestVolumes:
    def test_a_failed_volume_has_no_data(self, bench):
        state = volume_state()
        bench.pacer.add(5, 17, state, 0.0)
        assert bench.pacer.backing(5) == 17
        bench.pacer.fail(5)
        assert bench.pacer.backing(5) == bench.pacer.backing(6) == -1
        with pytest.raises(KeyError):
            bench.pacer.fail(6)

    def test_dropping_removes_the_requests_of_one_volume_in_order(self, bench):
        one, two = bench.volume(held(100), node=2), bench.volume(held(100), node=3)
        order = random.Random(3).choices([one, two], k=200)
        for number, node in enumerate(order):
            bench.pacer.arrive(node, START, number * MIB, 4096, False, number)
        dropped = bench.pacer.drop(one)
        assert [found[6] for found in dropped] == [number for number, node in enumerate(order) if node == one]
        for found in dropped:
            bench.pacer.done(found, START)
        assert bench.pacer.figures(one, START).queue_length == 0
        assert bench.pacer.drop(one) == bench.pacer.drop(9) == []
        left = []
        while (at := bench.pacer.next_event()) < math.inf:
            left.append(bench.pacer.take_due(at)[6])
        assert left == [number for number, node in enumerate(order) if node == two]

    def test_removing_a_volume_removes_its_waiting_requests(self, bench):
        node = bench.volume(held(100))
        for number in range(10):
            bench.pacer.arrive(node, START, number * MIB, 4096, False)
        bench.pacer.remove(node)
        assert bench.pacer.next_event() == math.inf
        bench.states[node].memory.close()  # raises if the pacer still uses it
        with pytest.raises(KeyError):
            bench.pacer.arrive(node, START, 0, 4096, False)
        bench.volume(node=node)


@given(st.lists(st.floats(1e-6, 0.004), min_size=10, max_size=160))
def test_the_path_of_a_read_is_that_of_an_idle_machine(delays):
    """What a busy machine adds would be subtracted from the service time of every later I/O."""
    times = [40e-6 + delay for delay in delays] + [40e-6] * (200 - len(delays))
    random.Random(1).shuffle(times)
    assert undisturbed(times) == pytest.approx(40e-6)
