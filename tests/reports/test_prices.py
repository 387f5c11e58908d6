"""The cost of a test: its computation, the format of a file of prices, and the places that show it."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import Cost, gp3, io2
from pytest_cloudbench.reports import costs as costs_module
from pytest_cloudbench.reports.costs import Costs
from pytest_cloudbench.reports.prices import BadPrices, Prices, per_hour, unpriced
from pytest_cloudbench.reports.properties import judged_promises
from pytest_cloudbench.reports.summary_table import rows_of, table_lines

PRICES = {
    "currency": "USD",
    "instance_hour": {"c5.18xlarge": 3.06},
    "volume_month": {
        "io2": {"gib": 0.125, "iops": 0.065},
        "gp3": {"gib": 0.08, "iops": 0.005, "iops_free": 3000, "mib_per_s": 0.04, "mib_per_s_free": 125},
    },
}


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(PRICES))
    return Prices.read(path)


def month_of(prices, spec):
    return prices.volume(spec).per_hour * 730


def test_instances_and_volumes_by_the_hour(prices):
    assert prices.instance("c5.18xlarge").per_hour == pytest.approx(3.06)
    volume = prices.volume(io2(size_gib=80, iops=80_000))
    assert volume.per_hour == pytest.approx((80 * 0.125 + 80_000 * 0.065) / 730)
    assert per_hour([volume, prices.instance("c5.18xlarge")]) == pytest.approx(3.06 + volume.per_hour)


def test_only_amounts_above_the_included_ones_cost(prices):
    assert month_of(prices, gp3(size_gib=100)) == pytest.approx(8.0)
    more = gp3(size_gib=100, iops=4_000, throughput_mib=225)
    assert month_of(prices, more) == pytest.approx(8.0 + 5.0 + 4.0)


TIERED = Prices(
    "USD", volume_month={"io2": {"gib": 0, "iops": [[0, 0.065], [32_000, 0.0455], [64_000, 0.03185]]}}
)


@pytest.mark.parametrize(
    ("iops", "month"),
    [
        (32_000, 32_000 * 0.065),
        (64_000, 32_000 * 0.065 + 32_000 * 0.0455),
        (80_000, 32_000 * 0.065 + 32_000 * 0.0455 + 16_000 * 0.03185),
    ],
)
def test_each_tier_of_io2_has_its_own_price(iops, month):
    assert month_of(TIERED, io2(size_gib=1_000, iops=iops)) == pytest.approx(month)


@given(st.integers(100, 255_000), st.integers(1, 1_000))
def test_more_iops_never_cost_less_and_the_next_one_at_most_the_first_price(iops, more):
    spec, larger = (io2(size_gib=65_536, iops=each) for each in (iops, iops + more))
    step = month_of(TIERED, larger) - month_of(TIERED, spec)
    assert 0 < step <= 0.065 * more * (1 + 1e-9)


def test_what_has_no_price_is_named_and_small_things_are_told_apart(prices):
    charges = [prices.instance("m5.large"), prices.instance("m5.large"), prices.address()]
    assert unpriced(charges) == ["m5.large", "public IPv4 address"]
    assert unpriced(charges, minor=False) == ["m5.large"]
    assert Prices("USD").volume(gp3(size_gib=1)).per_hour is None
    assert per_hour(charges) == 0
    priced = Prices("USD", address_hour=0.005, snapshot_gib_month=0.05)
    assert priced.address().per_hour == 0.005
    assert priced.snapshot(73).per_hour == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("cost", "said"),
    [(1.534, "1.53 USD"), (0.00312, "0.0031 USD"), (1234.5, "1,234.50 USD"), (0, "0.00 USD")],
)
def test_costs_as_people_read_them(cost, said):
    assert str(Cost(cost)) == said


def test_costs_add_and_compare_in_one_currency():
    total = Cost(0.5, seconds=10) + Cost(0.25, seconds=20)
    assert (total.amount, total.seconds) == (0.75, 30)
    assert Cost(0.5) < total < 1
    assert float(total) == 0.75 == total
    assert total.per_hour == pytest.approx(90)
    assert Cost(1).per_hour is None
    with pytest.raises(TypeError, match="currencies"):
        total + Cost(1, "EUR")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{", "not JSON"),
        ("[]", "currency"),
        ('{"currency": "USD", "hours": {}}', "currency"),
        ('{"currency": "USD", "instance_hour": {"m5.large": "0.1"}}', "'0.1' of m5.large"),
        ('{"currency": "USD", "instance_hour": {"m5.large": -1}}', "-1 of m5.large"),
        ('{"currency": "USD", "volume_month": {"gp3": {"gb": 1}}}', "gp3 of volume_month"),
        ('{"currency": "USD", "volume_month": {"io2": {"iops": [[9, 1], [3, 1]]}}}', "tiers"),
        ('{"currency": "USD", "volume_month": {"io2": {"iops": [[0, -1]]}}}', "tiers"),
        ('{"currency": "USD", "volume_month": {"io2": {"iops": []}}}', "tiers"),
        ('{"currency": "USD", "address_hour": "1"}', "'1' of address_hour"),
    ],
)
def test_prices_that_cannot_be_used_are_refused_before_anything_runs(pytester, content, said):
    if content is not None:
        (pytester.path / "prices.json").write_text(content)
    with pytest.raises(BadPrices, match=said):
        Prices.read(pytester.path / "prices.json")
    pytester.makepyfile("def test_it(): raise SystemExit")
    result = pytester.runpytest_inprocess("--cloudbench-prices=prices.json", "-p", "no:cacheprovider")
    result.stderr.fnmatch_lines([f"ERROR: the prices *{said.replace('[', '[[]')}*"])


COSTS = """
import types

import pytest
from pytest_cloudbench import io2
from pytest_cloudbench.reports.hooks import call_hook
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.reports.properties import verdict_properties


@pytest.fixture
def launched(request):
    volume = types.SimpleNamespace(spec=io2(size_gib=80, iops=80_000), label="io2")
    launched = types.SimpleNamespace(image=None, public_ip="192.0.2.1")
    instance = types.SimpleNamespace(type="c5.18xlarge", zone="z", id="i-1", volumes=[volume], launched=launched)
    call_hook(request.node, "instance", instance=instance, cloud=None)


def test_it(launched, request):
    for _ in range(2):
        verdict = Verdict(Outcome.HELD, "held: 80,001 of 80,000 IOPS", "reaches", Iops(80_000), Iops(80_001))
        request.node.user_properties.extend(verdict_properties(verdict))
"""


@pytest.mark.parametrize(("cloud", "verb"), [("aws", "1 test cost"), ("embedded", "1 test would have cost")])
def test_tables_have_a_cost_column_and_the_sum_names_what_has_no_price(pytester, cloud, verb):
    (pytester.path / "prices.json").write_text(json.dumps(PRICES))
    pytester.makepyfile(COSTS)
    result = pytester.runpytest_inprocess(
        "--cloudbench-prices=prices.json",
        f"--cloudbench-cloud={cloud}",
        "--cloudbench-summary=summary.md",
        "--cloudbench-evidence=off",
        "--junitxml=junit.xml",
        "-p",
        "no:cacheprovider",
    )
    result.assert_outcomes(passed=1)
    text = (pytester.path / "summary.md").read_text()
    # 3.06 / 60 of the instance and 5,210 / 730 / 60 of the volume.
    assert ("| would have cost |" if cloud == "embedded" else "| cost |") in text
    assert text.count("0.17 USD") == 1, "once per test: its verdicts share the cost"
    [total] = [line for line in result.outlines if line.startswith(f"cloudbench: {verb} 0.17 USD")]
    assert ("on AWS" in total) is (cloud == "embedded")
    assert any("public IPv4 address" in line and "not included" in line for line in result.outlines)
    assert '"cloudbench.exact_cost" value="0.169950 USD"' in (pytester.path / "junit.xml").read_text()


def test_the_column_stands_before_the_ceilings_and_the_table_still_fits():
    verdicts = judged_promises(
        [
            ("cloudbench.verdict", "held: 80,001 of 80,000 IOPS"),
            ("cloudbench.outcome", "held"),
            ("cloudbench.bound_by", "c5.18xlarge EBS IOPS, 80,000 IOPS"),
        ]
    )
    rows = rows_of([("test_x.py::test_it", verdicts)], {"test_x.py::test_it": "0.17 USD"})
    wide = table_lines(rows, 120)
    assert wide[0].index("verdict") < wide[0].index("cost") < wide[0].index("limited by")
    assert wide[2].index("0.17 USD") == wide[0].index("cost")
    assert "would have cost" in table_lines(rows, 120, cost_head="would have cost")[0]
    narrow = table_lines(rows, 70)
    assert "  cost 0.17 USD" in narrow
    assert max(map(len, [*narrow, *wide])) <= 120


# What a test's hardware costs -----------------------------------------------------------------------------

ALL = Prices(
    "USD",
    {"m5.large": 0.096},
    {"gp3": {"gib": 0.08}},
    address_hour=0.005,
    snapshot_gib_month=0.05,
    zone_traffic_gb=0.01,
)


@dataclasses.dataclass(frozen=True)
class Measured:
    sent: SimpleNamespace | None = None
    streams: tuple = ()
    runtime_s: float = 10.0
    time_compression: float = 1.0
    cost: Cost | None = None


@dataclasses.dataclass(frozen=True)
class OfAnotherPlugin:
    rate: float = 1.0


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=1_000.0)
    monkeypatch.setattr(costs_module.time, "monotonic", lambda: now.s)
    return now


def instance(name="i-1", zone="a", type="m5.large", gib=0):
    launched = SimpleNamespace(image=SimpleNamespace(root_size_gib=73), public_ip="192.0.2.1")
    volumes = [SimpleNamespace(spec=gp3(size_gib=gib))] if gib else []
    return SimpleNamespace(id=name, type=type, zone=zone, volumes=volumes, snapshots=[], launched=launched)


HOUR = 0.096 + 73 * 0.08 / 730 + 0.005


def test_the_root_volume_and_the_address_are_part_of_the_cost(clock):
    costs, item = Costs(ALL, hypothetical=False), SimpleNamespace(nodeid="t", user_properties=[])
    costs.pytest_cloudbench_instance(item, instance(gib=730))
    clock.s += 1_800
    costs.pytest_runtest_teardown(item)
    assert costs.spent == pytest.approx((HOUR + 0.08) / 2)
    assert ("cloudbench.exact_cost", f"{costs.spent:.6f} USD") in item.user_properties


def test_repeats_on_the_same_hardware_share_its_first_minute_and_miss_no_second(clock):
    costs = Costs(ALL, hypothetical=False)
    for number in (1, 2, 3):
        item = SimpleNamespace(nodeid=f"t{number}", user_properties=[])
        costs.pytest_cloudbench_instance(item, instance())
        clock.s += 100
        costs.pytest_runtest_teardown(item)
        clock.s += 7  # between repeats the hardware stays
    assert costs.spent == pytest.approx(HOUR / 3600 * (3 * 100 + 2 * 7))


def test_a_workload_has_the_cost_of_all_hardware_of_its_test_while_it_ran(clock):
    costs, item = Costs(ALL, hypothetical=True), SimpleNamespace(nodeid="t", user_properties=[])
    for name in ("i-1", "i-2"):
        costs.pytest_cloudbench_instance(item, instance(name))

    def run():
        clock.s += 36
        return Measured()

    measured = costs.of_workload(item, run)
    assert measured.cost.amount == pytest.approx(2 * HOUR / 100)
    assert (measured.cost.currency, measured.cost.seconds) == ("USD", 36)
    assert measured.cost.per_hour == pytest.approx(2 * HOUR)
    assert costs.of_workload(item, OfAnotherPlugin) == OfAnotherPlugin()


def test_traffic_between_zones_is_paid_at_both_ends(clock):
    costs, item = Costs(ALL, hypothetical=False), SimpleNamespace(nodeid="t", user_properties=[])
    costs.pytest_cloudbench_instance(item, instance("i-1", "a"))
    costs.pytest_cloudbench_instance(item, instance("i-2", "b"))
    sent = Measured(sent=SimpleNamespace(bytes_per_second=1e9))
    assert costs.of_workload(item, lambda: sent).cost.amount == pytest.approx(10 * 0.02)
    costs.pytest_runtest_teardown(item)
    assert costs.spent == pytest.approx(2 * HOUR / 60 + 0.2)


def test_a_workload_on_hardware_without_a_price_has_no_cost(clock):
    costs, item = Costs(ALL, hypothetical=False), SimpleNamespace(nodeid="t", user_properties=[])
    costs.pytest_cloudbench_instance(item, instance(type="x9.large"))
    assert costs.of_workload(item, Measured).cost is None
    costs.pytest_runtest_teardown(item)
    assert ("cloudbench.no_price", "x9.large") in item.user_properties


def test_unknown_prices_cost_neither_the_test_nor_its_measurement(clock):
    costs, item = Costs(None, hypothetical=False), SimpleNamespace(nodeid="t", user_properties=[])
    costs.ask = lambda types: "the list said no"
    costs.pytest_cloudbench_instance(item, instance())
    assert costs.of_workload(item, Measured) == Measured()
    costs.pytest_runtest_teardown(item)
    assert item.user_properties == []
    assert costs.trouble == "the list said no"
