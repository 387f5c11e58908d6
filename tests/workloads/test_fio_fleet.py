"""fio on several hosts: the jobs of each, and what fio's client leaves behind."""

from __future__ import annotations

import configparser
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair, ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay
from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioOutputError, FioRefused
from pytest_cloudbench.workloads.fio.fleet import bounded, check_all_ran, job_file, shares
from pytest_cloudbench.workloads.fio.fleet_logs import first_start_s, joined_logs, since
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.output import parse_client_output
from pytest_cloudbench.workloads.fio.series_logs import IOPS_LOG, LOGS, series_from_logs
from pytest_cloudbench.workloads.iperf3.streams import summed_series
from pytest_cloudbench.workloads.network_measurement import NetworkSeries

OUTPUTS = Path(__file__).parent / "fio_outputs"
A, B = "127.0.0.1", "127.0.0.2"


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_server_ends_with_all_that_it_started(interrupted: bool) -> None:
    ignoring = ["sh", "-c", "trap '' INT; sleep 60 & echo started; wait"]
    began = time.monotonic()
    with subprocess.Popen(bounded(ignoring, 60 if interrupted else 1), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"started\n"
        if interrupted:
            server.send_signal(signal.SIGINT)
        assert server.stdout.read() == b""  # the end of all that could write
    assert time.monotonic() - began < 30


@given(
    iops=st.integers(100, 100_000),
    devices=st.lists(st.integers(1, 5), min_size=1, max_size=6),
)
def test_shares_add_up_to_the_total_and_follow_the_devices(iops, devices):
    each = shares(FioJob.of("randread", rate_iops=iops, rate="1g"), devices)
    assert sum(job.rate_iops.per_second for job in each) == iops
    assert sum(job.rate.bytes_per_second for job in each) == 1 << 30
    for job, count in zip(each, devices, strict=True):
        assert abs(job.rate_iops.per_second - iops * count / sum(devices)) <= 1


def test_a_share_without_an_io_is_refused():
    with pytest.raises(BadFioJob):
        shares(FioJob.of("randread", rate_iops=2), [1, 1, 1])


def test_the_job_file_has_the_options_of_the_command_line():
    job = FioJob.of("randrw", rate_iops=1_001, numjobs=2, percentage_random=50, runtime=9)
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.read_string(job_file(job.to_argv("block", ["/dev/a", "/dev/b"])).decode())
    assert parser.sections() == ["global", "cloudbench", "cloudbench-2", "cloudbench-3"]
    options = parser["global"]
    assert (options["rw"], options["runtime"], options["percentage_random"]) == ("randrw", "9", "50")
    assert (options["per_job_logs"], options["log_unix_epoch"], options["unique_filename"]) == ("1", "1", "0")
    assert not options.keys() & {"output", "output-format", "eta", "eta-newline"}
    assert [parser[name]["filename"] for name in parser.sections()[1:]] == ["/dev/a", "/dev/a", "/dev/b"]


def test_the_whole_and_each_host_are_read_from_the_output_of_a_client():
    whole, hosts = parse_client_output((OUTPUTS / "fleet-two-hosts.json").read_bytes())
    assert list(hosts) in ([A, B], [B, A])
    assert whole.iops == pytest.approx(sum(each.iops for each in hosts.values()))
    assert whole.read.ios == sum(each.read.ios for each in hosts.values()) == 2_001
    slower, faster = sorted(hosts.values(), key=lambda each: each.latency.mean_s, reverse=True)
    assert faster.latency.mean_s < whole.latency.mean_s < slower.latency.mean_s
    assert faster.latency.p50_s <= whole.latency.p50_s <= slower.latency.p50_s
    assert whole.latency.max_s == max(each.latency.max_s for each in hosts.values())


def test_a_host_that_refused_its_job_is_named_although_the_client_ended_with_0():
    output = (OUTPUTS / "fleet-one-host-refused.json").read_bytes()
    _, hosts = parse_client_output(output)
    assert list(hosts) == [B]
    with pytest.raises(FioRefused, match=r"m5.large i-1.*is not a directory"):
        check_all_ran({A: "m5.large i-1", B: "m5.large i-2"}, hosts, output)


def logs_of(starts_ms, rate=100, jobs=2, seconds=4):
    """The files of one sample each second of each job on each host."""
    return {
        f"{name.removesuffix('.log')}.{job}.log.{host}": b"".join(
            b"%d, %d, 0, 0, 0\n" % (start_ms + 1000 * (second + 1), rate) for second in range(seconds)
        )
        for name in LOGS
        for host, start_ms in starts_ms.items()
        for job in range(1, jobs + 1)
    }


def test_the_logs_of_all_hosts_become_one_series_that_begins_with_their_load():
    files = logs_of({A: 1_795_446_981_068, B: 1_795_446_981_448})
    files |= {f"series_slat.1.log.{A}": b"1795446982068, 1, 0, 0, 0\n", "result.json": b"{}"}
    each = {host: joined_logs(files, host) for host in (A, B)}
    starts_s = {host: first_start_s(logs, 1.0) for host, logs in each.items()}
    assert starts_s[B] - starts_s[A] == pytest.approx(0.38)
    relative = {host: since(logs, starts_s[host]) for host, logs in each.items()}
    assert relative[A][IOPS_LOG] == relative[B][IOPS_LOG]
    one = series_from_logs(relative[A], runtime_s=4.0)
    both = series_from_logs({name: relative[A][name] + relative[B][name] for name in LOGS}, runtime_s=4.0)
    assert [rate.per_second for rate in one.iops] == [200.0] * 4
    assert [rate.per_second for rate in both.iops] == [400.0] * 4
    assert both.seconds == (1.0, 2.0, 3.0, 4.0)


def test_ten_jobs_are_read_in_the_order_of_their_numbers():
    files = {f"series_iops.{job}.log.{A}": b"%d, %d, 0, 0, 0\n" % (1000, job) for job in range(1, 12)}
    lines = joined_logs(files, A)[IOPS_LOG].splitlines()
    assert [int(line.split(b", ")[1]) for line in lines] == list(range(1, 12))
    assert first_start_s({}, 1.0) is None


def test_the_counters_of_a_fleet_are_those_of_the_host_where_a_limit_acted_least():
    busy, idle = ThrottleDelta(10, 9, 0, 9, 0, 1_000, None), ThrottleDelta(11, 1, 0, 10, 0, 500, 7)
    whole = ThrottleDelta.of_hosts([busy, idle])
    assert whole == ThrottleDelta(11, 1, 0, 9, 0, 1_500, None)
    ends = AllowanceDelta(10, bw_out_exceeded=50), AllowanceDelta(10, bw_out_exceeded=0)
    both = AllowancePair.of_pairs([AllowancePair(ends[0], None), AllowancePair(ends[1], ends[0])])
    assert both == AllowancePair(AllowanceDelta(10), None)


def test_the_machine_answers_for_the_ios_of_all_hosts():
    whole = MachineDelay.of_hosts([MachineDelay(100, 0.001, 0.0, 4), MachineDelay(300, 0.002, 0.004, 4)])
    assert (whole.answered, whole.volumes) == (400, 8)
    assert (whole.modelled_s, whole.late_s) == pytest.approx((0.00175, 0.003))


def test_hosts_of_one_machine_add_up_their_load_and_others_do_not():
    loads = [GeneratorLoad(20.0, 40.0, 2), GeneratorLoad(30.0, 60.0, 2)]
    assert GeneratorLoad.of_hosts([("one", each) for each in loads]) == GeneratorLoad(30.0, 100.0, 2)
    assert GeneratorLoad.of_hosts(list(zip("ab", loads, strict=True))) == GeneratorLoad(30.0, 60.0, 2)


def test_samples_of_pairs_add_up_where_all_have_them():
    long = NetworkSeries((1.0, 2.0, 3.0), (Bandwidth(5.0),) * 3, retransmits=(1, 2, 3))
    short = NetworkSeries((1.0, 2.0), (Bandwidth(7.0),) * 2, sent=(Bandwidth(7.0),) * 2, retransmits=(1, 1))
    both = summed_series([long, short])
    assert both == NetworkSeries((1.0, 2.0), (Bandwidth(12.0),) * 2, retransmits=(2, 3))


@pytest.mark.fault("parsers", "a tool's output is damaged")
@pytest.mark.parametrize("time", [b"17{}700", b"", b"1e9", b"nan", b"-5", b"9" * 20])
def test_a_log_without_a_time_is_damaged(time):
    logs = {IOPS_LOG: b"1795906547699, 501, 0, 0, 0\n" + time + b", 500, 0, 0, 0\n"}
    with pytest.raises(FioOutputError, match="without a time"):
        first_start_s(logs, 1.0)
    with pytest.raises(FioOutputError, match="without a time"):
        since(logs, 1795906546.7)
