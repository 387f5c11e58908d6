"""Prices from the region's price list through boto3, and sessions that plan or limit what they cost.

The sessions run against a front whose plane only records its calls: instances have no hosts.
"""

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_cloudbench import gp3, io1, io2
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.price_list import PriceList
from pytest_cloudbench.fixtures import fixtures
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.twin.api.front import Front
from pytest_cloudbench.twin.api.refusal import Refusal

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "costs.md").read_text()

TESTS = """
import pytest
from pytest_cloudbench import gp3, io2

@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_volume(ec2_instance, ebs_volume):
    pass

@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=10), count=2)
@pytest.mark.cloudbench_repeats(2, on="same")
def test_repeated(ec2_instance, ebs_volumes):
    assert ec2_instance.type == "m5.large"

@pytest.mark.ec2_pair("c5n.large", placement="cluster")
def test_network(ec2_pair):
    pass

def test_without_a_cloud():
    pass
"""
ROOT = 8 * 0.08 / 730
IO2 = (80 * 0.125 + 32_000 * (0.065 + 0.0455) + 16_000 * 0.03185) / 730
MINUTES = {
    "test_volume": (3.06 + IO2 + ROOT) / 60,
    "test_repeated": (0.096 + 2 * 10 * 0.08 / 730 + ROOT) / 60,
    "test_network": 2 * (0.108 + ROOT) / 60,
}
"""The cost of the minute that is billed at least."""


@pytest.fixture
def price_list(calls, tmp_path):
    def make(cache=None):
        key = calls.front.access_key
        access = CloudAccess(
            endpoint_url=calls.front.url, region="us-east-1", access_key=key.key_id, secret_key=key.secret
        )
        return PriceList(access, "us-east-1", cache)

    return make


@pytest.fixture
def actions(monkeypatch):
    """Every call that reaches the front: its action, and whether it is a dry run."""
    made = []
    dispatch = Front._dispatch

    def recorded(self, service, environ):
        from urllib.parse import parse_qs

        from pytest_cloudbench.twin.api.front import _body

        asked = parse_qs(_body(environ).decode())
        action = asked.get("Action", [environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]])[0]
        made.append((action, asked.get("DryRun") == ["true"]))
        return dispatch(self, service, environ)

    monkeypatch.setattr(Front, "_dispatch", recorded)
    return made


ON_THE_FRONT = """
import contextlib
import json
import os

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.fixtures import fixtures


@contextlib.contextmanager
def on_the_front(config):
    yield CloudAccess(**json.loads(os.environ["FRONT"]))


fixtures.open_access = on_the_front
"""


@pytest.fixture
def session(calls, pytester, monkeypatch):
    """Run a session of TESTS on the front, as on an embedded region; return its exit code and its output."""
    pytester.makepyfile(test_it=TESTS)
    pytester.makeconftest(ON_THE_FRONT)
    pytester.makeini("[pytest]\n")
    monkeypatch.setattr(
        fixtures, "open_access", fixtures.open_access
    )  # restored after conftest.py replaced it
    key = calls.front.access_key
    access = {
        "endpoint_url": calls.front.url,
        "region": "us-east-1",
        "access_key": key.key_id,
        "secret_key": key.secret,
        "ssh_from_cidr": "10.0.0.0/16",
        "address": "private",
    }
    monkeypatch.setenv("FRONT", json.dumps(access))
    monkeypatch.setenv("XDG_STATE_HOME", str(pytester.path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*options):
        start = pytester.runpytest_subprocess if "-n1" in options else pytester.runpytest_inprocess
        done = start("-p", "no:cacheprovider", *options)
        return done.ret, done.stdout.str() + done.stderr.str()

    def end_credentials_at(end):
        for name in ("access_key", "secret_key"):
            access.pop(name)
        monkeypatch.setenv("FRONT", json.dumps(access))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret)
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", end.isoformat())

    run.folder = pytester.path
    run.end_credentials_at = end_credentials_at
    return run


def test_prices_are_read_from_the_list_and_kept_for_a_day(price_list, actions, tmp_path):
    cache = tmp_path / "prices" / "us-east-1.json"
    prices = price_list(cache).prices(["c5.18xlarge", "c5.metal", "i3.metal", "x99.large"])
    assert prices.instance_hour == {"c5.18xlarge": 3.06, "c5.metal": 4.08, "i3.metal": 4.992}
    assert f"{datetime.now(timezone.utc):%Y-%m-%d}" in prices.source
    assert prices.volume(io2(size_gib=80, iops=80_000)).per_hour == pytest.approx(IO2)
    assert prices.volume(io1(size_gib=100, iops=1_000)).per_hour * 730 == pytest.approx(12.5 + 65)
    gp3_month = prices.volume(gp3(size_gib=100, iops=4_000, throughput_mib=225)).per_hour * 730
    assert gp3_month == pytest.approx(8 + 1_000 * 0.005 + 100 * 0.04)
    assert (prices.address_hour, prices.snapshot_gib_month, prices.zone_traffic_gb) == (0.005, 0.05, 0.01)

    asked = len(actions)
    again = price_list(cache).prices(["c5.18xlarge", "x99.large"])
    assert again.volume_month == prices.volume_month
    assert len(actions) == asked, "all of it was kept, also that a type has no price"
    assert price_list(cache).prices(["m5.large"]).instance_hour["m5.large"] == 0.096
    assert len(actions) == asked + 1
    cache.write_text(cache.read_text().replace(f"{datetime.now(timezone.utc):%Y}-", "2001-"))
    price_list(cache).prices([])
    assert len(actions) > asked + 1, "an old list is read again"
    for broken in ("{", '{"date": 3}', "[]"):
        cache.write_text(broken)
        assert price_list(cache).prices([]).address_hour == 0.005


SHARED = """
import pytest
from pytest_cloudbench import gp3

@pytest.mark.parametrize("number", range(2))
@pytest.mark.ec2_instance("m5.large", scope="module")
@pytest.mark.ebs_volume(gp3(size_gib=1), scope="module")
def test_shared(ec2_instance, ebs_volume, number):
    pass

@pytest.mark.ec2_instance("m5.large", scope="module")
@pytest.mark.ebs_volume(gp3(size_gib=2))
def test_new_volume(ec2_instance, ebs_volume):
    pass

@pytest.mark.parametrize("number", range(2))
@pytest.mark.ec2_instance("m5.large")
def test_own(ec2_instance, number):
    pass
"""


@pytest.mark.parametrize(("options", "instances"), [((), 3), (("--cloudbench-reuse",), 2)])
def test_a_plan_counts_shared_hardware_once(session, options, instances):
    (session.folder / "test_it.py").write_text(SHARED)
    code, output = session("--cloudbench-plan", *options)
    assert code == 0, output
    assert f"sum: 5 tests, {instances} instances, 2 volumes; they would cost at least" in output
    of = dict(re.findall(r"^test_it\.py::(\S+)\n((?:  .*\n)+)", output, re.MULTILINE))
    assert "same hardware as test_it.py::test_shared[0]" in of["test_shared[1]"]
    assert "same instance as test_it.py::test_shared[0]\n  1 x gp3 2 GiB" in of["test_new_volume"]
    kind = "same hardware as" if options else "hardware like that of"
    assert f"  {kind} test_it.py::test_own[0]" in of["test_own[1]"]
    assert ("at least one minute" in of["test_own[1]"]) == (not options)


def test_the_file_in_the_docs_has_the_prices_of_the_list(price_list):
    [text] = re.findall(r"(?s)```json\n(.*?)```", DOCS)
    documented = Prices.of(json.loads(text), "the docs")
    listed = price_list().prices(["c5.18xlarge"])
    for spec in (io2(size_gib=80, iops=80_000), gp3(size_gib=100, iops=4_000, throughput_mib=225)):
        assert documented.volume(spec).per_hour == pytest.approx(listed.volume(spec).per_hour)
    for name in ("instance_hour", "address_hour", "snapshot_gib_month", "zone_traffic_gb", "currency"):
        assert getattr(documented, name) == getattr(listed, name)


def test_the_list_has_pages_and_refuses_what_it_does_not_have(calls):
    pricing = calls.client("pricing")
    first = pricing.get_products(ServiceCode="AmazonEC2")
    second = pricing.get_products(ServiceCode="AmazonEC2", NextToken=first["NextToken"])
    assert len(first["PriceList"]) == 100
    assert not set(first["PriceList"]) & set(second["PriceList"])
    with pytest.raises(calls.ec2.exceptions.ClientError, match="NotFoundException"):
        pricing.get_products(ServiceCode="AmazonRDS")
    with pytest.raises(calls.ec2.exceptions.ClientError, match="UnsupportedOperation"):
        pricing.describe_services()
    with pytest.raises(calls.ec2.exceptions.ClientError, match="NoSuchResourceException"):
        calls.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")


def test_a_plan_creates_nothing_and_a_run_costs_what_its_plan_says(session, actions, calls, plane):
    code, shown = session("--cloudbench-plan")
    assert code == 0, shown
    creating = {(action, dry) for action, dry in actions if not action.startswith(("Describe", "Get"))}
    dry_runs = {
        "ImportKeyPair",
        "CreateSecurityGroup",
        "CreatePlacementGroup",
        "RunInstances",
        "CreateVolume",
    }
    assert creating == {(action, True) for action in dry_runs}
    assert not plane.calls
    assert not calls.ec2.describe_instances()["Reservations"]
    assert not calls.ec2.describe_key_pairs()["KeyPairs"]
    planned = sum(MINUTES.values())
    assert "4 tests, 4 instances, 3 volumes" in shown
    assert f"at least {planned:.2f} USD" in shown
    [excerpt] = re.findall(r"(?m)(?:^    .*\n)+", DOCS.split("## While")[0])
    for line in excerpt.splitlines():
        assert re.sub("subnet-[0-9a-f]+", "subnet", line[4:]) in re.sub("subnet-[0-9a-f]+", "subnet", shown)
    assert "time unknown" in shown
    assert "quota" not in shown, "this region has none"

    code, shown = session("--cloudbench-max-cost=5", "--junitxml=junit.xml")
    assert code == 0, shown
    assert f"4 tests would have cost {planned:.2f} USD on AWS" in shown
    costs = costs_in(session.folder / "junit.xml")
    assert costs["test_volume"] == pytest.approx(MINUTES["test_volume"], abs=1e-6)
    assert costs["test_network"] == pytest.approx(MINUTES["test_network"], abs=1e-6)
    code, shown = session("--cloudbench-plan", "--cloudbench-max-cost=5")
    assert code == 0, shown
    assert "as in an earlier run" in shown
    assert "one minute is billed" in shown
    assert "time unknown" not in shown
    assert f"they would cost {planned:.2f} USD" in shown, (
        "the tests were shorter than the minute that is billed"
    )


def test_a_limit_refuses_a_plan_before_it_creates_anything(session, plane):
    code, shown = session("--cloudbench-max-cost=0.01")
    assert code == 1
    assert f"the plan costs at least {sum(MINUTES.values()):.2f} USD" in shown
    assert not plane.calls
    code, shown = session("--cloudbench-max-cost=1", "--cloudbench-prices=off")
    assert code == 4
    assert "needs prices" in shown


def test_a_limit_stops_before_the_test_that_would_pass_it(session, plane):
    (session.folder / "test_it.py").write_text(
        """
import pytest

def test_unplanned(ec2):
    ec2.launch("c5.18xlarge")

@pytest.mark.ec2_instance("m5.large")
def test_too_many(ec2_instance):
    pass

def test_without_a_cloud():
    pass
"""
    )
    code, shown = session("--cloudbench-max-cost=0.052", "-rs")
    assert code == 1, "a run that was stopped is not a success"
    assert "2 passed, 1 skipped" in shown
    assert "the tests until here cost 0.051 USD" in shown
    assert len(plane.named("boot")) == 1


def test_what_would_be_refused_fails_the_plan_all_at_once(session, monkeypatch):
    (session.folder / "test_more.py").write_text(
        "import pytest\n"
        "@pytest.mark.ec2_instance('c5.18xlarg')\n"
        "def test_mistyped(ec2_instance): pass\n"
        "def test_own_code(ec2): pass\n"
        "@pytest.mark.ec2_instance('c5.large', or_types=['c5.xlarge'], spot=True)\n"
        "def test_spot(ec2_instance): pass\n"
    )
    # moto must be loaded before.
    from pytest_cloudbench.twin.api import pricing
    from pytest_cloudbench.twin.api.ec2_actions import Ec2Actions

    monkeypatch.setattr(pricing, "_quota", lambda asked, vcpus: {"Quota": {"Value": 64.0}})

    def unauthorized(self):
        raise Refusal(
            "UnauthorizedOperation", "You are not authorized to perform this operation.", status=403
        )

    monkeypatch.setattr(Ec2Actions, "create_volume", unauthorized)
    code, shown = session("--cloudbench-plan", "--cloudbench-max-cost=0.01")
    assert code == 1
    refused = [line for line in shown.splitlines() if line.startswith("would be refused: ")]
    assert len(refused) == 6
    assert "UnknownInstanceType" in refused[0]
    assert sum("UnauthorizedOperation" in line for line in refused) == 2, "one for each kind of volume"
    assert "quota is 64 vCPUs" in refused[3]
    assert refused[4].endswith(" ec2:CreateVolume")
    assert "--cloudbench-max-cost=0.01" in refused[5]
    assert "its own code requests the hardware" in shown
    assert "spot instance c5.large (else c5.xlarge) in us-east-1a" in shown


def test_credentials_that_end_before_the_lease_and_the_plan_are_named(session, calls):
    (session.folder / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('number', range(9))\ndef test_it(ec2, number): pass\n"
    )
    session.end_credentials_at(datetime.now(timezone.utc) + timedelta(minutes=8))
    code, shown = session("--cloudbench-plan")
    assert code == 0, shown
    assert re.search(r"(?m)^not known: the credentials end at .* and the plan takes 9 min", shown)
    code, shown = session("--cloudbench-cloud=aws", "--cloudbench-lease=1h")
    assert code == 0, shown
    [line] = [line for line in shown.splitlines() if "the credentials end at" in line]
    assert "a lease takes 60 min" in line


@pytest.mark.parametrize(("options", "process"), [((), ""), (("-n1",), "-gw0")])
def test_resources_have_the_id_of_their_run(session, options, process):
    (session.folder / "test_it.py").write_text(
        "def test_it(ec2, _cloudbench_cloud): open('id', 'w').write(_cloudbench_cloud.run_id)\n"
    )
    code, shown = session(*options)
    assert code == 0, shown
    [evidence] = session.folder.glob("cloudbench-evidence/2*")
    assert (session.folder / "id").read_text() == evidence.name + process


def costs_in(junit):
    """Return the exact cost of each test in a JUnit file."""
    return {
        case.get("name"): float(each.get("value").split()[0])
        for case in ElementTree.parse(junit).iter("testcase")
        for each in case.iter("property")
        if each.get("name") == "cloudbench.exact_cost"
    }
