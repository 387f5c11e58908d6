"""Stand-ins for measurements, a cloud and hosts, to test recording and replaying."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pytest_cloudbench import gp3
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.create_files.creation import FileCreation
from pytest_cloudbench.workloads.create_files.series import FileSeries
from pytest_cloudbench.workloads.measurement import Direction, DirectionSeries, Latency, Measurement, Series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, NetworkSeries, StreamResult

VOLUME = "vol-0123456789abcdef0"
LIMITS = InstanceLimits.from_describe(
    {
        "InstanceType": "m5.xlarge",
        "EbsInfo": {
            "EbsOptimizedInfo": {
                "MaximumIops": 18_750,
                "MaximumThroughputInMBps": 593.75,
                "BaselineIops": 6_000,
                "BaselineThroughputInMBps": 143.75,
            }
        },
        "NetworkInfo": {
            "NetworkCards": [
                {
                    "NetworkPerformance": "Up to 10 Gigabit",
                    "BaselineBandwidthInGbps": 1.25,
                    "PeakBandwidthInGbps": 10.0,
                }
            ]
        },
    },
    date="2026-11-01",
)


def measured(iops: float = 3_000.0, *, seconds: int = 10, **changes: Any) -> Measurement:
    """Return what fio would measure on a gp3 volume at this constant rate."""
    size = Size.parse("4k")
    rates = tuple(Iops(iops + 0.25 * number) for number in range(seconds))
    throughput = tuple(rate.at(size) for rate in rates)
    latency = Latency(16 / iops, 1e-4, 0.02, p50_s=0.005, p99_s=0.012)
    whole = Measurement(
        workload="fio randread 4k",
        iops=iops,
        throughput_mib=iops * size.mib,
        read=Direction(iops, iops * size.mib, int(iops * seconds), int(iops * seconds) * 4096, latency),
        write=None,
        latency=latency,
        series=Series(
            tuple(float(number + 1) for number in range(seconds)),
            rates,
            throughput,
            tuple(None if number == 3 else 16 / iops for number in range(seconds)),
            read=DirectionSeries(rates, throughput, tuple(16 / iops for _ in rates)),
        ),
        block_size=size,
        sequential=False,
        outstanding_asked=16,
        runtime_s=float(seconds),
        command="fio --rw=randread --bs=4096",
        tool_version="fio-3.33",
        host="m5.xlarge i-0abc",
        target=f"gp3 10 GiB {VOLUME}",
        started_at="2026-11-20T12:00:00+00:00",
        envelope=storage_envelope(LIMITS, [(VOLUME, gp3(size_gib=10))], size, sequential=False),
        counters=ThrottleDelta(float(seconds), volume_iops_exceeded_s=seconds * 0.9),
        generator=GeneratorLoad(11.5, 23.0, 2),
        conditions=("quick pace: runtime 300 s -> 10 s",),
        asked={"iodepth": 16, "list": [1, 2], "size": size, "nothing": None},
        raw={"result.json": b'{"jobs": []}\n' * 40, "series_iops.log": b"1000, 3000, 0, 4096, 0\n" * 50},
    )
    return dataclasses.replace(whole, **changes)


def both_ways() -> NetworkMeasurement:
    """Return what iperf3 would measure in both directions at once."""

    def one(gbit: float, *, reverse: bool) -> NetworkMeasurement:
        rate = Bandwidth.from_gbit(gbit)
        series = NetworkSeries((1.0, 2.0), (rate, rate), (rate, rate), (3, 0), (64_000, None), (0.001, None))
        stream = StreamResult(1, 40_000, not reverse, rate, rate, series, retransmits=3)
        return NetworkMeasurement(
            workload="iperf3 TCP",
            protocol="TCP",
            throughput=rate,
            sent=rate,
            received=rate,
            streams=(stream,),
            series=series,
            runtime_s=2.0,
            path="a -> b",
            client="a",
            server="b",
            client_commands=("iperf3 -c b",),
            server_commands=("iperf3 -s",),
            tool_versions={"client": "iperf3 3.12"},
            started_at="2026-11-20T12:00:00+00:00",
            reverse=reverse,
            raw={"client-1.json": b"{}" * 60},
        )

    forward, backward = one(4.9, reverse=False), one(4.8, reverse=True)
    return dataclasses.replace(forward, directions=(forward, backward))


def files_created() -> FileCreation:
    """Return what create_files would measure."""
    return FileCreation(
        files=1_000,
        size=Size.parse("64k"),
        written_s=0.5,
        on_device_s=1.25,
        series=FileSeries((1.0,), (1_000.0,), (Throughput.from_mib(62.5),)),
        start_marker=None,
        end_marker=None,
        device_when_written=None,
        device_writes=None,
        block_size=Size.parse("64k"),
        method="python",
        tool_version="Python 3.11",
        command="python3 create",
        host="m5.xlarge i-0abc",
        target="xfs on gp3",
        started_at="2026-11-20T12:00:00+00:00",
        asked={"count": 1_000, "sync": "end", "workers": 4},
    )


STANDS_IN = f"""
import sys

sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parent.parent)]!r}
"""
STANDS_IN += '''
import dataclasses

import pytest
import recorded_runs
from workload_stand_ins import stand_in
from pytest_cloudbench.limits.quantities import Size


@dataclasses.dataclass(frozen=True)
class Target:
    """A target that does not exist."""

    label: str = "gp3 10 GiB vol-0123456789abcdef0"


ran = []
rates = [3_000.0]


def run_fio(target, job, *, pace, on_progress):
    ran.append(job)
    return recorded_runs.measured(rates[(len(ran) - 1) % len(rates)], target=target.label)


@pytest.fixture
def volume():
    return Target()


@pytest.fixture(autouse=True)
def _stands_in(monkeypatch):
    stand_in(monkeypatch, "fio", run_fio)
'''
"""A conftest in which the fio fixture returns at once, for any target."""


OWN_RATE = """
import pytest
import recorded_runs
from pytest_cloudbench import Iops
from workload_stand_ins import stand_in

@pytest.fixture(autouse=True)
def _own_rate(monkeypatch):
    made = recorded_runs.measured({rate}, rate_asked=Iops(1_000.0))
    stand_in(monkeypatch, "fio", lambda target, job, *, pace, on_progress: made)

def test_it(volume, fio):
    fio(volume, rw="randread", rate_iops=1_000)
"""
"""A test of a job that limits its own rate; what it reached is to be filled in."""


CLOUD_STANDS_IN = '''

class Clouds:
    """A control plane that makes everything at once; it counts what it is asked."""

    def __init__(self):
        self.label = "embedded region"
        self.region, self.endpoint, self.run_id = "us-east-1", "http://127.0.0.1:5000", "20261120-run"
        self.listener = None
        self.made = 0
        self.ids = itertools.count(0x0123456789ABCDEF0)

    def host(self, instance, *, connect_timeout_s):
        return Host(instance)

    def unreachable_hint(self, instance):
        return ""

    def listen(self, listener):
        self.listener = listener

    def secrets(self):
        return ("the-secret-key-of-this-cloud",)

    def identity(self):
        return Identity("123456789012", "arn:aws:sts::123456789012:user/me")

    def limits(self, type):
        self._answer("describe_instance_types", {"InstanceTypes": [type]}, {"InstanceTypes": [{"InstanceType": type}]})
        return recorded_runs.LIMITS

    def check_attachments(self, limits, volumes, attached=1):
        pass

    def check_zone(self, limits, zone, volume_zone):
        pass

    def launch(self, type, **options):
        if type == "m5.larg":
            raise UnknownInstanceType("us-east-1 knows no instance type 'm5.larg'", nearest=("m5.large",))
        self.made += 1
        return LaunchedInstance(
            id=f"i-{self.made:017x}",
            type=type,
            zone="us-east-1a",
            state="running",
            private_ip="198.18.0.4",
            public_ip=None,
            address="198.18.0.4",
            limits=recorded_runs.LIMITS,
            image=ImageFacts("ami-1", "Debian 12", "x86_64", "admin", "/dev/xvda", 8, "ami-1"),
            key_name="key",
            private_key="-----BEGIN OPENSSH PRIVATE KEY-----\\nsecret\\n-----END OPENSSH PRIVATE KEY-----\\n",
            host_public_key="ssh-ed25519 AAAA",
            tags={"aws:cloudbench:machine-iops": "90000", "aws:cloudbench:machine-bytes-per-second": "2e9"},
        )

    def create_volumes(self, specs, zone=None, *, instance=None, name="", **more):
        self.made += 1
        self._answer("create_volume", {"ClientToken": "t-1"}, {"VolumeId": f"vol-{self.made:017x}"})
        return tuple(
            CreatedVolume(id, spec, "us-east-1a", Size.from_gib(spec.size_gib), "available")
            for id, spec in [(f"vol-{next(self.ids):017x}", spec) for spec in specs]
        )

    def attach_all(self, volumes, instance):
        return tuple(
            dataclasses.replace(each, attachment=Attachment(each.id, instance.id, "/dev/sdf", "attached"))
            for each in volumes
        )

    def refresh(self, instance):
        self._answer("describe_instances", {"InstanceIds": [instance.id]}, {"Reservations": []})
        return dataclasses.replace(instance, state="running again")

    def release(self, resources):
        self._answer("terminate_instances", {}, {})

    def _answer(self, operation, asked, answer):
        if self.listener is not None:
            self.listener(Answer("2026-11-20T12:00:00.%03d+00:00" % self.made, "ec2", operation, asked, answer))


class Host(ShellHost):
    """A host that answers some commands; nothing is connected."""

    says = {"uname": (0, b"Linux\\n", b""), "false": (1, b"", b"no\\n"), "big": (0, b"x" * 200_000, b"")}

    def __init__(self, instance):
        super().__init__(str(instance), address=instance.address, user=instance.login_user)
        self.counted = 0

    def execute(self, command):
        name = command.argv[0]
        if name == "hang":
            raise CommandTimedOut("on i-1, `hang` did not end within 60 s")
        if name == "count":
            self.counted += 1
            return command.result(0, f"{self.counted}\\n".encode(), b"")
        return command.result(*self.says[name])


@operation("look_at")
def look_at(host, path, *, size):
    host.run(["uname"])
    host.run(["big"])
    return BlockDevice(path, size, "vol-1")


@pytest.fixture(scope="session")
def _cloudbench_cloud():
    yield Clouds()
'''
CLOUD_STANDS_IN = (
    """
import itertools

from pytest_cloudbench.resources.errors import UnknownInstanceType
from pytest_cloudbench.resources.facts import (
    Answer, Attachment, CreatedVolume, Identity, ImageFacts, LaunchedInstance
)
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import CommandTimedOut
from pytest_cloudbench.hosts.host import operation
"""
    + CLOUD_STANDS_IN
)
"""An addition to that conftest: stand-ins for a provider and hosts."""
