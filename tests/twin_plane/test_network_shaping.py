"""Shaping, credits and counters on this machine: real instances and iperf3, at rates any machine can carry."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from real_plane import RealPlane, running_plane, wait_until

from pytest_cloudbench.hosts.network_counters import parse_statistics
from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.twin import machine
from pytest_cloudbench.twin.inventory import PlaneError
from pytest_cloudbench.twin.network import cables as network_module
from pytest_cloudbench.twin.network import shaping

pytestmark = pytest.mark.embedded
COMPRESSION = 60.0
ACCEPTABLE = 0.015  # of goodput, headers of 0.7 % included, in short runs on a busy machine


def gbit(figure):
    return Bandwidth.from_gbit(figure)


class Driver(RealPlane):
    """A plane whose instances have networks."""

    def __init__(self, plane, key):
        super().__init__(plane, key)
        self._ports = itertools.count(5301)

    def boot(self, instance_id, peak=None, baseline=None, *, burst_s=0.0, group=None, **plan):
        """Boot an instance whose full bucket lasts ``burst_s`` seconds by the clock."""
        rates = credits = None
        if peak is not None:
            rates = ShapedRates(gbit(peak), gbit(baseline or peak))
        if burst_s:
            capacity = (rates.peak - rates.baseline).bytes_per_second * burst_s * COMPRESSION
            credits = NetworkCredits(capacity, "test", "2026-11")
        self.launch(instance_id, network=rates, network_credits=credits, placement_group=group, **plan)

    @contextlib.contextmanager
    def launched(self, *names, **shape):
        try:
            for name in names:
                self.boot(name, **shape)
            yield
        finally:
            for name in names:
                with contextlib.suppress(PlaneError):
                    self.plane.instances.terminate(name)

    @contextlib.contextmanager
    def serving(self, server):
        """Start an iperf3 server for one run; return its port."""
        port = next(self._ports)
        listening = f"for n in $(seq 500); do ss -ltn | grep -q ':{port} ' && break; sleep 0.02; done"
        process = subprocess.Popen(
            self.command(server, f"iperf3 -s -1 -p {port} >/dev/null & {listening}; echo up; wait"),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout.readline() == "up\n"
            yield port
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def iperf3(self, client, server, *, streams=1, seconds=2, options=""):
        """Return the result of an iperf3 run; with -R the server sends."""
        with self.serving(server) as port:
            return json.loads(
                self.ssh(
                    client,
                    f"iperf3 -c {self.addresses[server]} -p {port} -P {streams} -t {seconds} -J {options}",
                )
            )

    def goodput(self, client, server, **how):
        """Return the Gbit/s received over all streams, without their start."""
        end = self.iperf3(client, server, **{**how, "options": f"-O 1 {how.get('options', '')}"})["end"]
        return end["sum_received"]["bits_per_second"] / 1e9

    def assert_limited(self, gbit_per_second, client, server, *, within=ACCEPTABLE, **how):
        """Check that the goodput is at a limit: never above it, and as much once the machine had the time for it."""
        for _ in range(4):
            got = self.goodput(client, server, **how)
            if got >= gbit_per_second * (1 - within):
                break
        assert got == pytest.approx(gbit_per_second, rel=within)

    def allowances(self, instance_id):
        return parse_statistics(self.ssh(instance_id, "ethtool -S eth0"))

    def tc(self, instance_id, what):
        return self.ssh(instance_id, f"sudo tc {what}")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with running_plane(Driver, tmp_path_factory.mktemp("key"), time_compression=COMPRESSION) as driver:
        driver.boot("i-slow", 0.3)
        driver.boot("i-slow-too", 0.3)
        yield driver


@pytest.mark.alone  # exact within 5 %
@pytest.mark.parametrize(("streams", "options"), [(1, ""), (5, ""), (1, "-R"), (5, "-R")])
def test_the_rate_is_exact_on_one_and_five_streams_in_both_directions(driver, streams, options):
    got = driver.goodput("i-slow", "i-slow-too", streams=streams, options=options)
    assert got == pytest.approx(0.3, rel=ACCEPTABLE)


@pytest.mark.alone  # what a busy machine does not send in time is lost
def test_udp_is_limited_too_and_waits_at_the_sender(driver):
    end = driver.iperf3("i-slow", "i-slow-too", options="-u -b 1G")["end"]
    received = end["sum"]["bits_per_second"] * (1 - end["sum"]["lost_percent"] / 100) / 1e9
    assert received == pytest.approx(0.3, rel=0.03)
    assert end["sum"]["lost_percent"] < 10  # of 70 if it were lost on the way


def test_the_slower_end_limits_both_directions(driver):
    with driver.launched("i-fast", peak=4):
        driver.assert_limited(0.3, "i-fast", "i-slow", within=0.03)
        driver.assert_limited(0.3, "i-slow", "i-fast")


def test_counters_say_which_end_was_over_its_bandwidth(driver):
    with driver.launched("i-fast", peak=4):
        before = {name: driver.allowances(name) for name in ("i-fast", "i-slow")}
        driver.goodput("i-fast", "i-slow")
        after = {name: driver.allowances(name) for name in ("i-fast", "i-slow")}
    gained = {
        name: {counter: after[name][counter] - before[name][counter] for counter in after[name]}
        for name in after
    }
    assert gained["i-slow"]["bw_in_exceeded"] > 100
    assert gained["i-slow"]["bw_out_exceeded"] == 0
    assert gained["i-fast"]["bw_in_exceeded"] == 0
    for name in gained:
        for counter in ("pps_exceeded", "conntrack_exceeded", "linklocal_exceeded"):
            assert gained[name][counter] == 0


def test_logging_in_stays_quick_while_the_network_is_full(driver):
    with driver.serving("i-slow-too") as port:
        load = f"iperf3 -c {driver.addresses['i-slow-too']} -p {port} -P 5 -t 30 >/dev/null"
        loading = subprocess.Popen(driver.command("i-slow", load))
        try:
            before = driver.allowances("i-slow")["bw_out_exceeded"]
            wait_until(
                lambda: driver.allowances("i-slow")["bw_out_exceeded"] > before + 500, "the network is full"
            )
            started = time.monotonic()
            driver.ssh("i-slow", "true")
            driver.ssh("i-slow-too", "true")
            assert time.monotonic() - started < 5
            assert loading.poll() is None
        finally:
            loading.kill()
            loading.wait()
    driver.ssh("i-slow", "pkill -x iperf3 || true")


def test_a_flow_has_its_own_limit_and_more_within_a_cluster_group(driver, monkeypatch):
    monkeypatch.setattr(shaping, "FLOW_LIMIT", gbit(0.2))
    monkeypatch.setattr(shaping, "FLOW_LIMIT_IN_CLUSTER", gbit(0.4))
    with (
        driver.launched("i-in", "i-in-too", peak=1.0, group="together"),
        driver.launched("i-out", peak=1.0),
    ):
        for options in ("", "-R"):
            with ThreadPoolExecutor() as flows:
                out = flows.submit(driver.assert_limited, 0.2, "i-in", "i-out", options=options)
                driver.assert_limited(0.4, "i-in", "i-in-too", options=options)
            out.result()
        driver.assert_limited(0.6, "i-in", "i-out", streams=3)
        before = driver.allowances("i-in")["bw_out_exceeded"]
        driver.assert_limited(1.0, "i-in", "i-out", streams=10)
        assert driver.allowances("i-in")["bw_out_exceeded"] > before + 100
        # Its address may be somebody's next who is not in the group.
        driver.plane.instances.terminate("i-in-too")
        driver.assert_limited(0.2, "i-in", "i-out")
        program = driver.tc("i-in", "filter show dev eth0")
        gone = int.from_bytes(bytes(int(part) for part in driver.addresses["i-in-too"].split(".")), "big")
        assert str(gone) not in program


def test_ena_express_raises_the_limit_of_a_tcp_flow_between_ends_that_have_it_in_one_zone(
    driver, monkeypatch
):
    monkeypatch.setattr(shaping, "FLOW_LIMIT", gbit(0.2))
    monkeypatch.setattr(shaping, "FLOW_LIMIT_WITH_ENA_EXPRESS", gbit(0.5))
    express = {"network_options": NetworkOptions(ena_express=True)}
    with (
        driver.launched("i-express", "i-express-too", peak=1.0, **express),
        driver.launched("i-elsewhere", peak=1.0, zone=1, **express),
        driver.launched("i-plain", peak=1.0),
    ):
        for options in ("", "-R"):
            driver.assert_limited(0.5, "i-express", "i-express-too", options=options)
        for other in ("i-elsewhere", "i-plain"):
            driver.assert_limited(0.2, "i-express", other)
        end = driver.iperf3("i-express", "i-express-too", options="-u -b 0.6G")["end"]
        assert end["sum"]["bits_per_second"] * (1 - end["sum"]["lost_percent"] / 100) < 0.25e9


def test_the_flow_limit_does_not_count_as_an_allowance(driver, monkeypatch):
    monkeypatch.setattr(shaping, "FLOW_LIMIT", gbit(0.2))
    with driver.launched("i-one", "i-other", peak=1.0):
        driver.goodput("i-one", "i-other")
        assert driver.allowances("i-one")["bw_out_exceeded"] == 0
        assert driver.allowances("i-other")["bw_in_exceeded"] == 0


@pytest.mark.alone  # exact within 0.1 s
def test_a_burst_ends_at_the_reported_moment_and_at_the_baseline(driver):
    with driver.launched("i-burst", "i-burst-too", peak=0.8, baseline=0.2, burst_s=4.0):
        # Long enough that what the sockets of the sender hold, 2 MB or so, is little of it, and so is what an
        # interval of 0.1 s at either end of what is judged has more or less, 2 MB too.
        run = driver.iperf3("i-burst", "i-burst-too", streams=5, seconds=14, options="-i 0.1")
        began = run["start"]["timestamp"]["timemillisecs"] / 1000 if "timemillisecs" in run["start"] else None
        governor = driver.plane.governor
        assert [governor.rate(name) for name in ("i-burst", "i-burst-too")] == [gbit(0.2)] * 2
        slowed_at = governor.slowed_at("i-burst")
        assert abs(slowed_at - governor.slowed_at("i-burst-too")) < 0.1
        series = [
            (interval["sum"]["end"], interval["sum"]["bits_per_second"] / 1e9)
            for interval in run["intervals"]
        ]
        late = [rate for end, rate in series if end > 5]
        assert sum(late) / len(late) == pytest.approx(0.2, rel=0.03)
        early = [rate for end, rate in series if 0.5 < end < 3.5]
        assert sum(early) / len(early) == pytest.approx(0.8, rel=0.03)
        dropped = next(end for end, rate in series if end > 0.5 and rate < 0.4)
        assert dropped == pytest.approx(4.0, abs=0.35)
        assert began is None or slowed_at - began == pytest.approx(dropped, abs=0.3)


def test_a_reboot_keeps_the_credits_and_a_stop_and_start_fills_them(driver):
    with driver.launched("i-burst", "i-burst-too", peak=0.8, baseline=0.01, burst_s=1.0):
        driver.iperf3("i-burst", "i-burst-too", seconds=2)
        governor = driver.plane.governor
        assert governor.rate("i-burst") == gbit(0.01)
        driver.plane.instances.reboot("i-burst")
        assert governor.rate("i-burst") == gbit(0.01)
        assert "rate 10Mbit" in driver.tc("i-burst", "class show dev eth0 classid 1:1")
        driver.plane.instances.stop("i-burst")
        driver.plane.instances.start("i-burst")
        assert (governor.rate("i-burst"), governor.slowed_at("i-burst")) == (gbit(0.8), None)
        assert "rate 800Mbit" in driver.tc("i-burst", "class show dev eth0 classid 1:1")
        assert driver.allowances("i-burst")["bw_out_exceeded"] == 0


@pytest.mark.alone  # its pauses of 0.3 s are all that may slow it
def test_a_load_slowed_by_the_machine_does_not_burst_again(driver):
    """Its sender sometimes gets no processor for 0.3 s. A rest of 20 ms would restore the peak."""
    pauses = "for n in 1 2 3 4 5; do pkill -STOP -x iperf3; sleep 0.3; pkill -CONT -x iperf3; sleep 0.4; done"
    with driver.launched("i-burst", "i-burst-too", peak=0.8, baseline=0.4, burst_s=1.0):
        later = f"(sleep 2; {pauses}) >/dev/null 2>&1 & true"
        driver.ssh("i-burst", f"setsid sh -c '{later}'")
        run = driver.iperf3("i-burst", "i-burst-too", seconds=6, options="-i 0.1")
    sums = [interval["sum"] for interval in run["intervals"]]
    assert any(each["bits_per_second"] > 0.6e9 for each in sums if each["end"] < 1)
    late = [each for each in sums if each["start"] >= 2]
    mean = sum(each["bytes"] for each in late) * 8 / sum(each["seconds"] for each in late) / 1e9
    assert 0.1 < mean < 0.37  # starved indeed
    # What the socket holds goes at once when the sender is back, but no more than that.
    assert not any(
        min(each["bits_per_second"] for each in late[at : at + 3]) > 0.5e9 for at in range(len(late) - 2)
    )


def test_a_rest_brings_the_peak_back(driver):
    with driver.launched("i-burst", "i-burst-too", peak=0.8, baseline=0.4, burst_s=0.5):
        driver.iperf3("i-burst", "i-burst-too", seconds=1)
        wait_until(lambda: driver.plane.governor.rate("i-burst") == gbit(0.8), "the peak is back")
        assert "rate 800Mbit" in driver.tc("i-burst", "class show dev eth0 classid 1:1")


@pytest.mark.alone
def test_a_type_without_figures_is_not_shaped(driver):
    with driver.launched("i-any", "i-any-too"):
        assert driver.plane.governor.rate("i-any") is None
        assert "htb" not in driver.tc("i-any", "qdisc show dev eth0")
        assert "allowance" not in driver.ssh("i-any", "ethtool -S eth0 2>&1 || true")
        assert driver.goodput("i-any", "i-any-too") > 1


def test_a_machine_that_cannot_shape_runs_instances(driver, monkeypatch, caplog):
    run = network_module._run

    def refused(program, commands, namespace_of=None):
        if program == "tc":
            raise network_module.NetworkFailed("Specified qdisc kind is unknown.")
        run(program, commands, namespace_of)

    monkeypatch.setattr(network_module, "_run", refused)
    with driver.launched("i-any", peak=1.0):
        assert driver.plane.governor.rate("i-any") is None
        assert "allowance" not in driver.ssh("i-any", "ethtool -S eth0 2>&1 || true")
    assert "i-any runs with an unlimited network" in caplog.text
    assert "Specified qdisc kind is unknown." in caplog.text


def test_a_cable_that_was_cut_and_mended_is_shaped_as_before(driver):
    network, address = driver.plane.network, driver.addresses["i-slow"]

    def set_cable(state):
        command = f"link set {network_module._cable(address)} {state}"
        network_module._run("ip", [command], network._holder.pid)

    set_cable("down")
    try:
        with pytest.raises(OSError, match=r"timed out|[Nn]o route"):
            socket.create_connection((address, 22), timeout=0.5)
    finally:
        set_cable("up")
    driver.assert_limited(0.3, "i-slow", "i-slow-too", streams=5)
    driver.assert_limited(0.3, "i-slow-too", "i-slow")


def test_everything_made_for_an_instance_is_removed_with_it(driver):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def ports():
        with driver.plane.network.open_counters() as counters:
            return len(counters.read().splitlines())

    with driver.launched("i-brief", peak=1.0):
        driver.ssh("i-brief", "true")
    before = descriptors(), ports()
    with driver.launched("i-brief", peak=6.0, baseline=1.0, burst_s=5, group="one"):
        driver.plane.instances.reboot("i-brief")
    assert (descriptors(), ports()) == before


def test_the_machines_network_is_measured_once(driver, monkeypatch):
    first = driver.plane.machine.network()
    assert first > gbit(0.5)
    monkeypatch.setattr(machine, "_probe_network", lambda network: pytest.fail("measured again"))
    assert driver.plane.machine.network() >= first


def test_instances_use_the_congestion_control_of_ec2s_images(driver):
    said = driver.ssh("i-slow", "cat /proc/sys/net/ipv4/tcp_congestion_control").strip()
    assert said in ("cubic", "reno")
