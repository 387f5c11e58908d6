"""The cost of a test: its computation, the format of a file of prices, and the places that show it."""

import json

import pytest

from pytest_cloudbench import gp3, io2
from pytest_cloudbench.reports.prices import BadPrices, Prices
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


def test_an_instance_and_its_volume_by_the_second(prices):
    volume = io2(size_gib=80, iops=80_000)
    assert prices.cost([("c5.18xlarge", 1800.0)], []) == pytest.approx(1.53)
    month = 80 * 0.125 + 80_000 * 0.065
    assert prices.cost([], [(volume, 3600.0)]) == pytest.approx(month / 730)
    both = prices.cost([("c5.18xlarge", 1800.0)], [(volume, 1800.0)])
    assert both == pytest.approx(1.53 + month / 1460)


def test_only_amounts_above_the_included_ones_cost(prices):
    free = prices.cost([], [(gp3(size_gib=100), 730 * 3600.0)])
    assert free == pytest.approx(8.0)
    more = prices.cost([], [(gp3(size_gib=100, iops=4_000, throughput_mib=225), 730 * 3600.0)])
    assert more == pytest.approx(8.0 + 5.0 + 4.0)


def test_the_minimum_is_a_minute(prices):
    assert prices.cost([("c5.18xlarge", 1.0)], []) == prices.cost([("c5.18xlarge", 60.0)], [])


def test_without_a_price_for_all_of_it_there_is_no_cost(prices):
    assert prices.cost([("c5.18xlarge", 60.0), ("m5.large", 60.0)], []) is None
    assert Prices("USD").cost([], [(gp3(size_gib=1), 60.0)]) is None


@pytest.mark.parametrize(
    ("cost", "said"), [(1.534, "1.53 USD"), (0.00312, "0.0031 USD"), (1234.5, "1,234.50 USD")]
)
def test_costs_as_people_read_them(prices, cost, said):
    assert prices.said(cost) == said


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
    ],
)
def test_prices_that_cannot_be_used_are_refused_before_anything_runs(pytester, content, said):
    if content is not None:
        (pytester.path / "prices.json").write_text(content)
    with pytest.raises(BadPrices, match=said):
        Prices.read(pytester.path / "prices.json")
    pytester.makepyfile("def test_it(): raise SystemExit")
    result = pytester.runpytest_subprocess("--cloudbench-prices=prices.json", "-p", "no:cacheprovider")
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
    instance = types.SimpleNamespace(type="c5.18xlarge", zone="z", id="i-1", volumes=[volume])
    call_hook(request.node, "instance", instance=instance, cloud=None)


def test_it(launched, request):
    for _ in range(2):
        verdict = Verdict(Outcome.HELD, "held: 80,001 of 80,000 IOPS", "reaches", Iops(80_000), Iops(80_001))
        request.node.user_properties.extend(verdict_properties(verdict))
"""


@pytest.mark.parametrize(("cloud", "shown"), [("aws", True), ("embedded", False)])
def test_tables_have_a_cost_column_if_a_test_has_a_cost(pytester, cloud, shown):
    (pytester.path / "prices.json").write_text(json.dumps(PRICES))
    pytester.makepyfile(COSTS)
    result = pytester.runpytest_subprocess(
        "--cloudbench-prices=prices.json",
        f"--cloudbench-cloud={cloud}",
        "--cloudbench-summary=summary.md",
        "--cloudbench-evidence=off",
        "-p",
        "no:cacheprovider",
    )
    result.assert_outcomes(passed=1)
    text = (pytester.path / "summary.md").read_text()
    # 3.06 / 60 of the instance and 5,210 / 730 / 60 of the volume.
    assert ("| cost |" in text) is shown
    assert text.count("0.17 USD") == shown, "once per test: its verdicts share the cost"
    assert any("0.17 USD" in line for line in result.outlines) is shown


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
    narrow = table_lines(rows, 70)
    assert "  cost 0.17 USD" in narrow
    assert max(map(len, [*narrow, *wide])) <= 120
