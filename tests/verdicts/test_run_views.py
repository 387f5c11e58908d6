"""The one view of a run: what storage and networks have in common, and damaged data."""

import dataclasses
import math

import pytest
from synthetic_networks import SyntheticSeries as NetworkSeries
from synthetic_networks import network_run
from synthetic_runs import CALM, SyntheticSeries, run_of

from pytest_cloudbench import Iops, Outcome, Throughput
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.steady import steady
from pytest_cloudbench.verdicts.storage_run import StorageRun
from pytest_cloudbench.verdicts.sustains import sustains


def test_both_kinds_have_one_interface():
    storage, network = view(run_of(80_000)), view(network_run(9.93))
    assert (type(storage), type(network)) == (StorageRun, NetworkRun)
    assert (storage.kind, network.kind) == ("storage", "a network")
    assert (storage.rate, network.rate) == (Iops(80_000), Bandwidth.from_gbit(9.93))
    public = {name for name in dir(Run) if not name.startswith("_")}
    for run in (storage, network):
        assert public <= set(dir(run))
        assert run.rates.like(run.rate) == run.rate
        assert len(run.samples(run.rate)) == 60
        assert run.timeline(run.rate) is run.timeline(run.rate), "falls are looked for once"
        assert run.bounds(run.rates) == run.bounds(run.rates_of(run.rate))
        assert view(run) is run


def test_what_only_the_other_kind_has_is_neutral():
    storage, network = view(run_of(80_000, delay=CALM)), view(network_run(9.93, streams=2))
    assert (storage.header_share, storage.streams, storage.machine_rate) == (0, (), None)
    assert (network.outstanding_asked, network.machine_delay, network.idle_at_start_s) == (None, None, 0)
    assert math.isnan(network.latency_mean_s)


TIMES = tuple(float(second + 1) for second in range(60))
RATES = (Iops(80_000.0),) * 60
BYTES = (Throughput(80_000 * 4096.0),) * 60


@pytest.mark.parametrize(
    ("series", "why"),
    [
        (SyntheticSeries(TIMES, RATES[1:], BYTES), "60 times but 59 values of iops"),
        (SyntheticSeries(TIMES[1:], RATES, BYTES), "59 times but 60 values of iops"),
        (SyntheticSeries(TIMES, RATES, BYTES[1:]), "59 values of throughput"),
        (SyntheticSeries(TIMES, (*RATES[1:], Iops(math.nan)), BYTES), "nan as iops"),
        (SyntheticSeries(TIMES, (*RATES[1:], Iops(-1.0)), BYTES), "-1.0 as iops"),
        (SyntheticSeries(TIMES, RATES, (*BYTES[1:], Throughput(math.inf))), "inf as throughput"),
        (SyntheticSeries(TIMES[::-1], RATES, BYTES), "times of its series do not rise"),
        (SyntheticSeries((*TIMES[1:], TIMES[-1]), RATES, BYTES), "do not rise"),
        (SyntheticSeries((*TIMES[1:], math.nan), RATES, BYTES), "do not rise"),
    ],
)
def test_damaged_series_are_refused_with_the_reason(series, why):
    run = dataclasses.replace(run_of(80_000), series=series)
    for verdict in (
        reaches(run, "80,000 IOPS"),
        reaches(run, "80,000 IOPS", share=0.9),
        capped_by(run, "80,000 IOPS"),
        drops_to(run, "3,000 IOPS"),
        steady(run),
        sustains(run, "80,000 IOPS", for_=10),
    ):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert str(verdict).startswith("inconclusive: the measurement is damaged: ")
        assert why in str(verdict)


def test_a_damaged_series_of_a_network_is_refused_too():
    run = network_run(9.93)
    run = dataclasses.replace(run, series=NetworkSeries(run.series.seconds, run.series.throughput[1:]))
    assert "60 times but 59 values of throughput" in str(reaches(run, "10 Gbit/s"))


def test_a_column_that_is_not_known_may_be_empty():
    run = dataclasses.replace(run_of(80_000), series=SyntheticSeries(TIMES, (), BYTES))
    assert view(run).damage == ""
    assert reaches(run, "80,000 IOPS")
