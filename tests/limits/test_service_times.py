"""Service times of volumes: what they promise, and the tables of them in the documentation."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.instance_store import STORE_SERVICE_TIME
from pytest_cloudbench.limits.quantities import KIB, MIB
from pytest_cloudbench.limits.volume_types import FIRST_READ, STATED_AT_BYTES, VOLUME_TYPES, ServiceTime
from pytest_cloudbench.verdicts.wording import duration

SERVICE_TIMES = {name: kind.service_time for name, kind in VOLUME_TYPES.items()}
ALL = {**SERVICE_TIMES, "instance store": STORE_SERVICE_TIME}
SSD = ("gp2", "gp3", "io1", "io2")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "region.md"

times = st.floats(1e-6, 1.0)
service_times = st.builds(
    ServiceTime,
    mean_s=times,
    spread=st.floats(0, 1.9),
    bytes_per_s=st.floats(1e6, 1e10),
    sequential_s=st.none() | times,
    write_s=st.none() | times,
)
shares = st.floats(0.001, 0.999)
sizes = st.integers(1, MIB)


@pytest.mark.parametrize("name", ALL)
def test_a_figure_has_a_source_and_a_date(name):
    assert ALL[name].source
    assert ALL[name].date


@pytest.mark.parametrize("name", SSD)
def test_ssd_volumes_answer_in_single_digit_milliseconds(name):
    for size in (4 * KIB, 16 * KIB, 256 * KIB):
        assert 1e-4 < SERVICE_TIMES[name].quantile(0.99, size) < 10e-3


def test_io2_answers_16_kib_in_less_than_500_us_on_average():
    assert SERVICE_TIMES["io2"].mean() + SERVICE_TIMES["io2"].transfer_s(16 * KIB) < 500e-6


def test_faster_types_are_faster_at_every_quantile():
    ranks = [ALL[name] for name in ("instance store", "io2", "io1", "gp3", "gp2", "st1", "sc1")]
    for share in (0.5, 0.99, 0.999):
        assert [one.quantile(share) for one in ranks] == sorted(one.quantile(share) for one in ranks)


@pytest.mark.parametrize("name", ["st1", "sc1", "standard"])
def test_hard_disks_are_faster_in_sequence(name):
    assert ALL[name].mean(sequential=True) < ALL[name].mean() / 3


@given(service_times, shares, shares, sizes)
def test_quantiles_rise_with_their_share(service, one, other, size):
    low, high = sorted((one, other))
    assert 0 < service.quantile(low, size) <= service.quantile(high, size)


@given(service_times, shares, sizes, sizes)
def test_quantiles_rise_with_the_size_above_16_kib_only(service, share, one, other):
    small, large = sorted((one, other))
    assert service.quantile(share, small) <= service.quantile(share, large)
    assert service.transfer_s(min(small, STATED_AT_BYTES)) == 0


@given(service_times, st.booleans(), st.booleans())
def test_the_mean_defaults_to_that_of_random_reads(service, write, sequential):
    if sequential and service.sequential_s is not None:
        expected = service.sequential_s
    elif write and service.write_s is not None:
        expected = service.write_s
    else:
        expected = service.mean_s
    assert service.mean(write=write, sequential=sequential) == expected


@pytest.mark.parametrize("name", ALL)
def test_quantiles_spread_around_the_mean(name):
    """The mean over evenly spaced quantiles is the mean; the median of a log-normal time lies below it."""
    service = ALL[name]
    factors = [service.factor((number + 0.5) / 4096) for number in range(4096)]
    assert math.fsum(factors) / len(factors) == pytest.approx(1, rel=2e-3)
    assert service.factor(0.5) == pytest.approx(math.exp(-(service.spread**2) / 2))
    for write in (False, True):
        expected = service.mean(write=write) * service.factor(0.9)
        assert service.quantile(0.9, write=write) == pytest.approx(expected)


def test_the_quantiles_are_those_of_a_log_normal_time():
    service = ServiceTime(1e-3, 0.25, 1e9)
    numbers = random.Random(1)
    drawn = sorted(1e-3 * numbers.lognormvariate(-(0.25**2) / 2, 0.25) for _ in range(200_000))
    for share in (0.5, 0.9, 0.99):
        assert service.quantile(share) == pytest.approx(drawn[int(share * len(drawn))], rel=0.02)


def test_without_spread_every_quantile_is_the_mean():
    service = ServiceTime(1e-3, 0.0, 1e9)
    assert {service.quantile(share) for share in (0.01, 0.5, 0.99)} == {1e-3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean_s": 0.0},
        {"mean_s": -1e-3},
        {"mean_s": math.inf},
        {"mean_s": math.nan},
        {"spread": -0.1},
        {"spread": 2.0},
        {"bytes_per_s": 0.0},
        {"sequential_s": -1e-3},
        {"write_s": math.inf},
    ],
    ids=str,
)
def test_figures_out_of_bounds_are_refused(wrong):
    with pytest.raises(ValueError, match="invalid service time"):
        ServiceTime(**{"mean_s": 1e-3, "spread": 0.2, "bytes_per_s": 1e9, **wrong})


# --- docs/region.md ------------------------------------------------------------------------------------


def row(name: str, service: ServiceTime) -> str:
    """Return what the table of the documentation says of a service time."""
    cells = [
        name,
        duration(service.mean_s),
        duration(service.quantile(0.99)),
        duration(service.transfer_s(STATED_AT_BYTES + MIB)),
        *("same" if each is None else duration(each) for each in (service.sequential_s, service.write_s)),
    ]
    return f"| {' | '.join(cells)} |"


def sources() -> list[str]:
    """Return each source once, with what it is the source of."""
    found: dict[str, list[str]] = {}
    for name, service in ALL.items():
        found.setdefault(service.source, []).append(name)
    return [f"- {', '.join(names)}: {source}." for source, names in found.items()]


def test_the_documentation_has_the_figures_of_every_type():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| type | mean | p99 |"))
    table = lines[begin + 2 : begin + 2 + len(ALL)]
    assert table == [row(name, service) for name, service in ALL.items()]
    assert not lines[begin + 2 + len(ALL)].startswith("|")


def test_the_documentation_has_the_sources():
    text = DOCS.read_text(encoding="utf-8").splitlines()
    assert [line for line in sources() if line not in text] == []


def test_the_documentation_has_the_rate_of_first_reads():
    text = " ".join(DOCS.read_text(encoding="utf-8").split())
    assert f"fetched at {FIRST_READ.iops.number} a second" in text
    assert FIRST_READ.iops.per_second * 64 * KIB == FIRST_READ.throughput.bytes_per_second
