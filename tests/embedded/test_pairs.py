"""Pairs, placement groups and compressed time end to end on the embedded region."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest
from service_clients import client_of

from pytest_cloudbench import Bandwidth, Outcome
from pytest_cloudbench.resources.facts import Answer

pytestmark = pytest.mark.embedded

CREATING = {"run_instances", "create_placement_group"}


@pytest.mark.ec2_pair("m5.2xlarge", "t3.micro", commands=["echo marked > /etc/marked"])
def test_both_ends_run_side_by_side_and_reach_each_other(ec2_pair):
    client, server = ec2_pair.client, ec2_pair.server
    assert (client.type, server.type) == ("m5.2xlarge", "t3.micro")
    assert client.zone == server.zone
    for end in (client, server):
        assert end.run(["cat", "/etc/marked"]).stdout == "marked\n"
    assert ec2_pair.server_address == server.launched.private_ip
    way = client.run(["ip", "route", "get", ec2_pair.server_address]).stdout
    assert f"src {client.launched.private_ip}" in way
    machine_cpus = int(client.run(["nproc"]).stdout)
    assert ec2_pair.client_cpus == ec2_pair.server_cpus == machine_cpus
    assert ec2_pair.time_compression == 1.0
    assert client.network_peak.limit == Bandwidth.from_gbit(10)
    assert client.network_baseline.limit == Bandwidth.from_gbit(2.5)
    assert ec2_pair.envelope(streams=1, reverse=False).binding[0].scope in ("flow", "machine")


@pytest.mark.ec2_pair("m5.large")
def test_the_counters_of_both_ends_are_there(ec2_pair):
    before = ec2_pair.counters()
    after = ec2_pair.counters()
    assert before is not None
    gained = after.since(before)
    for end in (gained.client, gained.server):
        assert end is not None
        assert end.elapsed_s > 0
        assert end.bw_out_exceeded == 0


@pytest.mark.ec2_pair("c5.18xlarge", placement="cluster")
def test_a_cluster_holds_both(request, ec2_pair):
    group = ec2_pair.client.launched.placement_group
    assert group is not None
    assert group == ec2_pair.server.launched.placement_group
    assert ec2_pair.cluster
    found = _client(request.getfixturevalue("_cloudbench_access")).describe_placement_groups(
        GroupNames=[group]
    )
    [described] = found["PlacementGroups"]
    assert (described["Strategy"], described["State"]) == ("cluster", "available")
    limits = {
        ceiling.scope: ceiling.limit for ceiling in ec2_pair.envelope(streams=1, reverse=False).ceilings
    }
    assert limits["flow"] == Bandwidth.from_gbit(10)


@pytest.mark.ec2_pair("m5.large", zones=("us-east-1a", "us-east-1b"))
def test_the_ends_may_lie_in_two_zones(ec2_pair):
    assert (ec2_pair.client.zone, ec2_pair.server.zone) == ("us-east-1a", "us-east-1b")
    way = ec2_pair.client.run(["ip", "route", "get", ec2_pair.server_address])
    assert ec2_pair.server_address in way.stdout


@pytest.mark.parametrize(
    ("arguments", "options", "refusal"),
    [
        (("m5.2xlarg",), {}, r"knows no instance type 'm5\.2xlarg'.*m5\.2xlarge"),
        (("m5.large", "c5.lrge"), {"placement": "cluster"}, r"knows no instance type 'c5\.lrge'.*c5\.large"),
        (("t2.medium",), {"placement": "cluster"}, r"t2\.medium cannot be in a cluster placement group"),
        (("m5.large",), {"zones": ("us-east-1a", "us-east-1z")}, r"us-east-1z"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_created(ec2, arguments, options, refusal):
    from pytest_cloudbench.resources.errors import CloudError

    heard: list[Answer] = []
    ec2._provider.listen(heard.append)
    with pytest.raises(CloudError, match=refusal):
        ec2.pair(*arguments, **options)
    asked = {answer.operation for answer in heard}
    assert not asked & CREATING


def test_a_cluster_over_two_zones_is_refused_before_anything_is_asked(ec2):
    heard: list[Answer] = []
    ec2._provider.listen(heard.append)
    with pytest.raises(
        ValueError, match=r"a cluster placement group lies in one availability zone, but zones"
    ):
        ec2.pair("m5.large", placement="cluster", zones=("us-east-1a", "us-east-1b"))
    assert not heard


def test_a_marker_that_cannot_be_is_refused_as_one_sentence(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ec2_pair("m5.2xlarge", "m5.2xlarg")
        def test_it(ec2_pair):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["UnknownInstanceType: *knows no instance type 'm5.2xlarg'*m5.2xlarge*"])


def test_instances_launched_one_by_one_make_a_path(ec2):
    group = ec2.create_placement_group()
    client = ec2.launch("m5.large", placement_group=group)
    server = ec2.launch("c5.large", placement_group=group)
    path = ec2.path(client, server)
    assert path.cluster
    assert path.label.endswith(f"{server.launched}, in a cluster placement group")


def test_compressed_time_reaches_the_instances_and_the_region_says_it(pytester):
    pytester.makepyfile(
        """
        import subprocess, sys

        import pytest

        @pytest.mark.ec2_pair("m5.large")
        def test_it(ec2_pair):
            assert ec2_pair.time_compression == 60.0
            status = [sys.executable, "-m", "pytest_cloudbench.cli", "twin", "status"]
            assert "time compressed 60 times" in subprocess.run(status, capture_output=True, text=True).stdout
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--cloudbench-twin-time=60")
    result.assert_outcomes(passed=1)


@pytest.mark.alone
@pytest.mark.ec2_pair("m5.large")
def test_iperf3_measures_what_the_type_gives_and_says_what_was_shortened(ec2_pair, iperf3, request):
    run = iperf3(ec2_pair, streams=2, duration=20)
    verdict = run.reaches(ec2_pair.client.network_peak)
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.machine_limited:
        pytest.skip(str(verdict))
    assert verdict
    assert len(run.streams) == 2
    kept = dict(request.node.user_properties)
    assert kept["cloudbench.verdict"] == str(verdict)
    assert kept["cloudbench.condition"] == "quick pace: duration 20 s -> 6 s"
    if run.reaches(ec2_pair.client.network_peak, within=0.02).outcome is not Outcome.HELD:
        pytest.skip(f"this machine did not fill the limit, so nothing was dropped at it: {run}")
    assert run.counters.client.bw_out_exceeded + run.counters.server.bw_in_exceeded > 0


@pytest.mark.ec2_pair("m5.large")
def test_ctrl_c_in_the_middle_leaves_no_iperf3_on_either_end(ec2_pair, iperf3):
    with _meanwhile(ec2_pair, lambda: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
        iperf3(ec2_pair, duration=6, bitrate="50 Mbit/s")
    assert _iperf3_processes(ec2_pair.client) == _iperf3_processes(ec2_pair.server) == []


@pytest.mark.ec2_pair("m5.large")
def test_a_server_that_dies_is_an_error_that_carries_what_was_measured(ec2_pair, iperf3, request):
    from pytest_cloudbench.workloads.iperf3.errors import Iperf3Interrupted

    def kill_the_server():
        ec2_pair.server.run(["pkill", "-9", "-x", "iperf3"])

    with _meanwhile(ec2_pair, kill_the_server), pytest.raises(Iperf3Interrupted) as broken:
        iperf3(ec2_pair, duration=6, bitrate="50 Mbit/s")
    measurement = broken.value.measurement
    assert 0 < measurement.runtime_s < 6
    assert not [name for name, _ in request.node.user_properties if name == "cloudbench.verdict"]
    measurement.reaches("1 Mbit/s")
    assert [name for name, _ in request.node.user_properties if name == "cloudbench.verdict"]
    assert _iperf3_processes(ec2_pair.client) == _iperf3_processes(ec2_pair.server) == []


@contextlib.contextmanager
def _meanwhile(pair, act):
    """Act once the client's iperf3 has run for more than two seconds."""
    ran = 'until [ "$(ps -o etimes= -C iperf3 | sort -n | tail -n 1)" -gt 2 ] 2>/dev/null; do sleep 0.1; done'

    def wait_and_act():
        pair.client.run(["sh", "-c", ran], timeout_s=60)
        act()

    thread = threading.Thread(target=wait_and_act, daemon=True)
    thread.start()
    yield
    thread.join()


def _iperf3_processes(instance):
    return instance.run(["pgrep", "-x", "iperf3"], check=False).stdout.split()


def _client(access):
    return client_of(access)
