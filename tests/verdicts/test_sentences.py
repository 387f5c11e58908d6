"""The complete sentences of a representative set of verdicts, in `sentences.txt` for a reader to review.

After a change of wording, write the file with `python tests/verdicts/test_sentences.py` and read its diff.
"""

import dataclasses
import random
from pathlib import Path
from types import SimpleNamespace

from synthetic_curves import curve_of
from synthetic_networks import (
    C5_2XL,
    C5_18XL,
    M5_2XL,
    M5_8XL,
    M5_LARGE,
    T2_MEDIUM,
    burst,
    machine,
    network_run,
    noise,
)
from synthetic_runs import CALM, GP3, LATE, M5, STRONG_MACHINE, WEAK_MACHINE, ceiling, delay_of, run_of
from test_burst_ends_at import falling, gp2_iops
from test_faster_than import Created
from test_latency_limits import at_the_ceiling, far_below, latency
from test_machine_delay import stalled_run
from test_not_worse_than import SETUP, at_set_load, earlier, now
from test_scales_linearly import on
from test_stays_below import LIMITED

from pytest_cloudbench import Iops, Outcome
from pytest_cloudbench.limits.network import flow_limit
from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.comparison import outperforms, resembles
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair, ThrottleDelta
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.faster_than import faster_than
from pytest_cloudbench.verdicts.latency_limits import latency_at_most
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun, not_worse_than
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.repeats import Repeat, over_repeats
from pytest_cloudbench.verdicts.scales_linearly import scales_linearly
from pytest_cloudbench.verdicts.stays_below import stays_below
from pytest_cloudbench.verdicts.steady import steady
from pytest_cloudbench.verdicts.sustains import sustains

SENTENCES = Path(__file__).parent / "sentences.txt"
BUSY = GeneratorLoad(cpu_percent_busiest=99.5)


def round_trips(mean_ms, max_ms):
    return SimpleNamespace(mean_s=mean_ms / 1000, max_s=max_ms / 1000)


def noisy(gbit, seed, spread=0.02):
    return network_run(client=C5_18XL, values=[gbit * one for one in noise(60, spread, random.Random(seed))])


def verdicts():
    """Yield each kind of verdict with its outcomes and their reasons."""
    yield from of_rates()
    yield from of_networks()
    yield from of_time()
    yield from of_several_runs()
    yield from of_latency_and_files()
    yield from of_earlier_runs()
    yield from of_repeats()


def of_rates():
    reached, throttled = run_of(80_152), run_of(9_061, "256k", sequential=True)
    dips = run_of(80_000, values=[80_000] * 95 + [40_000] * 5)
    gp2, counted = falling(2_000), ThrottleDelta(60.0, 55.0)
    late, damaged = run_of(45_000, machine=STRONG_MACHINE, delay=LATE), run_of(80_000)
    damaged = dataclasses.replace(
        damaged, series=dataclasses.replace(damaged.series, iops=damaged.series.iops[1:])
    )
    yield "reaches, storage", reaches(reached, ceiling("io2 vol-0abc IOPS", reached))
    yield "reaches, storage", reaches(throttled, "80,000 IOPS")
    yield "reaches, storage, share of the time", reaches(dips, "80,000 IOPS", share=0.9)
    yield "reaches, storage, share of the time", reaches(dips, "80,000 IOPS", share=0.999)
    yield "reaches, storage, burst", reaches(gp2, gp2_iops(gp2))
    yield "reaches, storage, burst", reaches(gp2, "2,900 IOPS")
    yield "reaches, storage, above all limits", reaches(run_of(95_000), "80,000 IOPS")
    yield "reaches, storage, counters alone", reaches(run_of(60_000, counters=counted), "80,000 IOPS")
    yield "reaches, storage, machine", reaches(late, "80,000 IOPS")
    yield "capped_by, storage, machine late once", capped_by(stalled_run(), "125 MiB/s")
    yield "reaches, storage, shallow load", reaches(run_of(20_000, outstanding=6, delay=CALM), "80,000 IOPS")
    yield "reaches, storage, own limit", reaches(run_of(40_000, rate_asked=Iops(40_000)), "80,000 IOPS")
    yield "reaches, storage, generator", reaches(run_of(60_000, generator=BUSY), "80,000 IOPS")
    yield "reaches, storage, drift", reaches(run_of(50_000, values=range(30_000, 70_000, 500)), "80,000 IOPS")
    yield (
        "reaches, storage, unexplained",
        reaches(run_of(60_000, counters=ThrottleDelta(60.0)), "80,000 IOPS"),
    )
    yield "reaches, storage, no rate", reaches(run_of(0.0), "80,000 IOPS")
    yield "reaches, storage, damaged", reaches(damaged, "80,000 IOPS")
    yield (
        "reaches, storage, damaged by a late machine",
        reaches(dataclasses.replace(late, iops=70_000, throughput_mib=70_000 / 256), "80,000 IOPS"),
    )
    yield (
        "reaches, storage, contradiction",
        reaches(dataclasses.replace(reached, latency_mean_s=reached.latency_mean_s * 3), "80,000 IOPS"),
    )
    yield "capped_by, storage", capped_by(throttled, ceiling("c5.18xlarge EBS throughput", throttled))
    yield "capped_by, storage", capped_by(throttled, ceiling("io2 vol-0abc throughput", throttled))
    yield "capped_by, storage, tie", capped_by(reached, ceiling("io2 vol-0abc IOPS", reached))
    yield "capped_by, storage, above", capped_by(run_of(5_000, on=M5, volumes=GP3), "3,000 IOPS")
    yield (
        "capped_by, storage, machine",
        capped_by(
            run_of(3_000, on=M5, volumes=GP3, machine=WEAK_MACHINE, delay=LATE, outstanding=16), "3,000 IOPS"
        ),
    )
    yield (
        "capped_by, storage, few samples",
        capped_by(run_of(3_000, on=M5, volumes=GP3, samples=3), "3,000 IOPS"),
    )
    yield "steady, storage", steady(reached)
    yield "steady, storage", steady(dips)
    yield "steady, storage, SNIA", steady(dips, method="snia")
    yield "steady, storage, SNIA", steady(run_of(50_000, values=range(30_000, 70_000, 500)), method="snia")
    yield "steady, storage, fall", steady(gp2)
    yield (
        "steady, storage, machine",
        steady(run_of(40_000, values=[50_000, 30_000] * 30, machine=STRONG_MACHINE, delay=LATE)),
    )


def of_networks():
    fell = network_run(values=burst(1_260, 3_600))
    one_flow, low = (
        network_run(4.96, client=C5_18XL),
        network_run(18.9, client=C5_18XL, streams=8, generator=BUSY),
    )
    slow_end = network_run(1.02, server=T2_MEDIUM)
    pair = AllowancePair(AllowanceDelta(60.0, bw_out_exceeded=12_345), AllowanceDelta(60.0))
    yield "reaches, network, burst", reaches(fell, M5_2XL.network_peak)
    yield "reaches, network, baseline", reaches(fell, M5_2XL.network_baseline)
    yield "reaches, network", reaches(fell, "9.5 Gbit/s")
    yield "reaches, network, one flow", reaches(one_flow, "25 Gbit/s")
    yield "reaches, network, slower end", reaches(slow_end, "10 Gbit/s")
    yield (
        "reaches, network, counters",
        reaches(network_run(9.93, client=C5_2XL, server=M5_8XL, streams=4, counters=pair), "20 Gbit/s"),
    )
    yield "reaches, network, generator", reaches(low, "25 Gbit/s")
    yield (
        "reaches, network, machine",
        reaches(network_run(3.0, client=M5_8XL, streams=4, on=machine(12)), "10 Gbit/s"),
    )
    yield "reaches, network, nothing arrived", reaches(network_run(0.0), "10 Gbit/s")
    yield "capped_by, network", capped_by(network_run(9.93, client=M5_8XL, streams=8), M5_8XL.network_peak)
    yield "capped_by, network", capped_by(one_flow, C5_18XL.network_peak)
    yield (
        "capped_by, network, tie",
        capped_by(network_run(9.93, client=M5_8XL, streams=2), M5_8XL.network_peak),
    )
    yield (
        "capped_by, network, above",
        capped_by(network_run(9.93, client=M5_8XL, streams=4), flow_limit(cluster=False)),
    )
    yield "drops_to, network", drops_to(fell, M5_2XL.network_baseline)
    yield (
        "drops_to, network, other level",
        drops_to(
            network_run(values=burst(600, 3_600, after=0.745), server=M5_LARGE, client=M5_2XL),
            M5_2XL.network_baseline,
        ),
    )
    yield "drops_to, network, too short", drops_to(network_run(9.93), M5_2XL.network_baseline)
    yield "drops_to, network, credits spent before", drops_to(network_run(2.4825), M5_2XL.network_baseline)
    yield (
        "drops_to, network, not settled",
        drops_to(network_run(values=[9 - 0.1 * second for second in range(60)]), M5_2XL.network_baseline),
    )


def of_time():
    gp2 = falling(2_000)
    held, dip = run_of(79_900, samples=600), run_of(79_933, values=[80_000] * 300 + [40_000] + [80_000] * 300)
    yield "burst_ends_at", burst_ends_at(gp2, gp2_iops(gp2))
    yield "burst_ends_at, earlier", burst_ends_at(falling(1_000), "300 IOPS")
    yield "burst_ends_at, other level", burst_ends_at(falling(2_000, after=900), "300 IOPS")
    yield "burst_ends_at, too short", burst_ends_at(falling(2_400, length=600), "300 IOPS")
    yield "drops_to, storage, unproven", drops_to(falling(2_390), "300 IOPS")
    yield "sustains", sustains(held, "80,000 IOPS", for_="10 min")
    yield "sustains", sustains(dip, "80,000 IOPS", for_="10 min")
    yield "sustains, share", sustains(dip, "80,000 IOPS", for_="10 min", share=0.99)
    for values in ([80_000] * 40 + [0] * 20, [80_000] * 59 + [-1]):
        yield "sustains, damaged", sustains(run_of(80_000, values=values), "80,000 IOPS", for_="10 s")
    lost = run_of(80_000, values=[80_000] * 58, seconds=[*range(1, 31), *range(33, 61)])
    yield "sustains, damaged", sustains(lost, "80,000 IOPS", for_="10 s")
    yield "sustains, too short", sustains(run_of(80_000), "80,000 IOPS", for_="10 min")


def of_several_runs():
    low = network_run(5.0, client=C5_18XL)
    yield "outperforms", outperforms(noisy(9.93, 1), noisy(4.96, 2), by=0.5)
    yield "outperforms", outperforms(noisy(4.96, 2), noisy(9.93, 1))
    yield "outperforms, at most less", outperforms(noisy(9.1, 1), noisy(9.93, 2), by="-25 %")
    yield "outperforms, blocks", outperforms(run_of(6_000, "16k"), run_of(6_000))
    yield "outperforms, noise", outperforms(noisy(9.93, 1, 0.2), noisy(9.93, 3, 0.2))
    yield (
        "outperforms, own limit",
        outperforms(noisy(9.93, 1), dataclasses.replace(low, rate_asked=low.throughput)),
    )
    yield "resembles", resembles(noisy(9.93, 1), noisy(9.9, 2))
    yield "resembles", resembles(noisy(9.93, 1), noisy(7.5, 2))
    yield "resembles, noise", resembles(noisy(9.93, 1, 0.2), noisy(9.93, 3, 0.2))
    yield "scales_linearly", scales_linearly([on(1, 1_000), on(2, 2_000), on(5, 4_960)], with_=[1, 2, 5])
    yield "scales_linearly", scales_linearly([on(1, 1_000, "64k"), on(5, 1_907, "64k")], with_=[1, 5])
    yield (
        "scales_linearly, own limit",
        scales_linearly([on(1, 1_000, rate_asked=Iops(1_000)), on(2, 2_000)], with_=[1, 2]),
    )
    yield "scales_linearly, above", scales_linearly([on(1, 500), on(2, 2_000)], with_=[1, 2])


def of_latency_and_files():
    store, root = Created(292, "instance store"), Created(488, "gp3 root")
    yield "at_most", latency_at_most(far_below(), latency(5, 9), {"mean": "20 ms", "p99": "20 ms"})
    yield "at_most", latency_at_most(at_the_ceiling(), latency(64), {"mean": "5 ms"})
    yield "at_most, reads", latency_at_most(far_below(), latency(5, 9), {"p99": "8 ms"}, of="reads")
    yield (
        "at_most, machine",
        latency_at_most(
            run_of(10_000, outstanding=16, machine=STRONG_MACHINE, delay=LATE), latency(1.6), {"mean": "1 ms"}
        ),
    )
    yield "at_most, round trips", latency_at_most(network_run(2.0), round_trips(0.4, 0.9), {"mean": "1 ms"})
    yield "at_most, round trips, slow", latency_at_most(network_run(2.0), round_trips(3, 4), {"mean": "1 ms"})
    yield (
        "at_most, round trips, at a limit",
        latency_at_most(network_run(4.96, client=C5_18XL), round_trips(8, 9), {"mean": "1 ms"}),
    )
    yield (
        "at_most, round trips, region",
        latency_at_most(network_run(2.0, on=machine(12)), round_trips(0.1, 0.2), {"mean": "1 ms"}),
    )
    yield "stays_below, curve", stays_below(curve_of(), "2ms", until=60_000)
    yield "stays_below, curve", stays_below(curve_of(**LIMITED), "1ms")
    yield (
        "stays_below, curve, too far apart",
        stays_below(curve_of(percents=(20, 50, 100)), "2ms", until=60_000),
    )
    yield "stays_below, curve, ends early", stays_below(curve_of(percents=(20, 50)), "2ms", until=60_000)
    yield "stays_below, curve, load not carried", stays_below(curve_of(), "100ms", until=200_000)
    yield "faster_than, files", faster_than(store, root, by=1.3)
    yield "faster_than, files", faster_than(root, store, by=1.3)
    yield "faster_than, files, too close", faster_than(Created(1.0, "a"), Created(1.3, "b"), by=1.3)
    yield (
        "faster_than, files, other work",
        faster_than(store, dataclasses.replace(root, work={"files": 10, "sync": "end"}), by=1.3),
    )
    yield "reaches, files", reaches(Created(800).device_side, "125 MiB/s")
    yield "reaches, files", reaches(Created(1_600).device_side, "125 MiB/s")


def of_earlier_runs():
    changed = SETUP | {"target": "gp3 500 GiB/4,000 IOPS", "zone": "us-east-1b", "kernel": "6.12.1"}
    three = earlier(6_004, 5_990, 6_011, setup=changed)
    slow_machine = now(4_500, machine=WEAK_MACHINE, delay=LATE)
    on_region = earlier(6_000, machine=STRONG_MACHINE, delay=delay_of(170))
    other_size = Earlier((EarlierRun("20261120-1", run_of(6_000, "16k", on=M5, volumes=GP3)),))
    yield "not_worse_than", not_worse_than(now(3_996, 4_000), three, by="5%")
    yield "not_worse_than, nothing changed", not_worse_than(now(4_500), earlier(6_004, 5_990, 6_011))
    yield "not_worse_than", not_worse_than(now(5_985), earlier(*[6_004, 5_990] * 3))
    yield "not_worse_than, better", not_worse_than(now(6_600, 9_000), earlier(*[6_004, 5_990] * 3))
    latencies = at_set_load(0.8, 0.82, 0.79)
    for name, latency_ms in (("violated", 1.6), ("too close", 0.9)):
        yield (
            f"not_worse_than, set load, {name}",
            not_worse_than(at_set_load(latency_ms).runs[0].run, latencies),
        )
    yield "not_worse_than, one run", not_worse_than(now(5_700), earlier(6_000))
    yield "not_worse_than, several runs", not_worse_than(now(5_700), earlier(6_100, 5_900, 6_000))
    yield "not_worse_than, generator", not_worse_than(now(4_000, generator=BUSY), earlier(6_000))
    yield "not_worse_than, machine", not_worse_than(slow_machine, on_region)
    yield "not_worse_than, other block size", not_worse_than(now(6_000), other_size)
    yield (
        "not_worse_than, no earlier run",
        not_worse_than(now(6_000), Earlier(missing="there are no earlier runs")),
    )


def of_repeats():
    rates = (3_001, 2_996, 3_004, 2_999, 3_002, 2_105)
    six = [reaches(run_of(rate, on=M5, volumes=GP3), "3,000 IOPS") for rate in rates]
    lost = Repeat(6, None, "HostLost: no answer from i-0123 within 300 s")
    yield "repeats", over_repeats([Repeat(number, six[number % 5]) for number in range(1, 7)])
    yield "repeats", over_repeats([Repeat(number, six[5]) for number in range(1, 7)])
    yield "repeats, one differs", over_repeats([Repeat(*each) for each in enumerate(six, 1)])
    yield "repeats, not measured", over_repeats([*(Repeat(*each) for each in enumerate(six[:5], 1)), lost])
    yield "repeats, half", over_repeats([Repeat(number, six[4 + number % 2]) for number in range(1, 7)])
    yield (
        "repeats, pairs",
        over_repeats(
            [
                Repeat(number, outperforms(run_of(rate * 1.02), run_of(rate)))
                for number, rate in enumerate(rates, 1)
            ]
        ),
    )


def text():
    return "".join(f"[{title}]\n{verdict}\n\n" for title, verdict in verdicts())


def test_the_sentences_are_those_that_were_reviewed():
    assert text() == SENTENCES.read_text(encoding="utf-8"), (__doc__ or "").rpartition("After ")[2]


def test_every_kind_is_there_with_every_outcome():
    found = {(title.partition(",")[0], verdict.outcome.value) for title, verdict in verdicts()}
    kinds = {kind for kind, _ in found}
    missing = {(kind, outcome.value) for kind in kinds for outcome in Outcome} - found
    assert missing == set()


if __name__ == "__main__":
    SENTENCES.write_text(text(), encoding="utf-8")
