"""A plane that only records its calls, and clients that call the region over real HTTP."""

from __future__ import annotations

import io
import itertools
import re
import threading
import time
from collections.abc import Callable
from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.config import Config

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.twin.api.front import Front
from pytest_cloudbench.twin.hosts.run_command import KILLED, Script, ScriptEnd
from pytest_cloudbench.twin.slots import ZONES, Slot

_SESSION = boto3.Session()  # one for all: it reads each service's model once


class RecordedScript:
    """A script that ends with the code in its text ("exit 3"), once the gate "script" is open; it prints its text."""

    def __init__(self, plane: RecordingPlane, script: Script) -> None:
        self._plane = plane
        self._script = script
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def wait(self) -> ScriptEnd:
        gate = self._plane.gates.get("script")
        deadline = time.monotonic() + 20
        while gate is not None and not gate.is_set() and time.monotonic() < deadline:
            if self._cancelled.wait(0.005):
                break
        code = re.search("exit ([0-9]+)", self._script.text)
        with self._plane._lock:
            self._plane.running_scripts -= 1
        text = io.BytesIO(self._script.text.encode())
        if self._cancelled.is_set():
            return ScriptEnd("cancelled", KILLED, text, io.BytesIO())
        if "time out" in self._script.text:
            return ScriptEnd("timed out", KILLED, text, io.BytesIO())
        return ScriptEnd("exited", int(code[1]) if code else 0, text, io.BytesIO())


class RecordingPlane:
    """The interface of `Plane` in memory. ``gates`` delay a call until set; ``failures`` make one fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.gates: dict[str, threading.Event] = {}
        self.failures: dict[str, Exception] = {}
        self.plans: dict[str, Any] = {}
        self.on_shutdown: dict[str, Callable[[bool], None]] = {}
        self.disks: dict[str, Any] = {}
        self.busy: set[str] = set()
        self.taken: set[str] = set()
        self.addresses = 256
        self.limits: MachineLimits | None = None
        self.carried: Throughput | None = None
        self.probes_network = threading.Event()
        self.time_compression = 1.0
        self.latency = "ebs"
        self.activity: tuple[list[Any], list[Any]] = ([], [])
        self.limited_stores: dict[str, bool] = {}
        self.held_resources: dict[str, tuple[int, bool]] = {}
        self.serve_metadata: Any = None
        self.booting = 0
        self.most_booting = 0
        self.running_scripts = 0
        self.most_running_scripts = 0
        self.registered: set[str] = set()
        self.silent_agents: set[str] = set()
        self._lock = threading.Lock()
        self._counters = [itertools.count(10) for _ in range(ZONES)]
        self.slot = Slot(0)
        self.instances = self.volumes = self.network = self
        self.store = SimpleNamespace(in_memory=True, room=lambda: 5_000_000_000)
        self.machine = SimpleNamespace(disks=lambda: self.limits, network=self.machine_network)
        self.snapshots = SimpleNamespace(percent=lambda _: 42, delete=self.delete_snapshot)

    def storage_activity(self) -> tuple[list[Any], list[Any]]:
        return self.activity

    def _record(self, name: str, *details: Any) -> None:
        with self._lock:
            self.calls.append((name, *details))
        gate = self.gates.get(name)
        if gate is not None and not gate.wait(20):
            raise RuntimeError(f"the test did not release {name}")
        if name in self.failures:
            raise self.failures[name]

    def named(self, name: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return [call for call in self.calls if call[0] == name]

    def take_address(self, zone_index: int, network: IPv4Network | None = None) -> str:
        with self._lock:
            if len(self.taken) >= self.addresses:
                raise RuntimeError("no address is left")
            network = network or self.slot.zone_network(zone_index)
            address = str(network.network_address + next(self._counters[zone_index]))
            self.taken.add(address)
            return address

    def take_public_address(self) -> str:
        return self.take_address(0, self.slot.public_network)

    def reserve_address(self, zone_index: int, address: str) -> None:
        with self._lock:
            self.taken.add(address)

    def is_free(self, address: str) -> bool:
        return address not in self.taken

    def release_address(self, address: str) -> None:
        with self._lock:
            self.taken.remove(address)

    def set_public_ip(self, instance_id: str, address: str | None) -> None:
        self._record("set_public_ip", instance_id, address)

    def boot(self, plan: Any, on_shutdown: Callable[[bool], None]) -> None:
        with self._lock:
            self.on_shutdown[plan.instance_id] = on_shutdown
            self.plans[plan.instance_id] = plan
            self.booting += 1
            self.most_booting = max(self.most_booting, self.booting)
        try:
            self._record("boot", plan.instance_id)
        finally:
            with self._lock:
                self.booting -= 1
        self.registered.add(plan.instance_id)

    def agent_registered_at(self, instance_id: str) -> float | None:
        return 1_700_000_000.0 if instance_id in self.registered else None

    def agent_answers(self, instance_id: str) -> bool:
        return instance_id in self.registered - self.silent_agents

    def run_script(self, instance_id: str, script: Script, region: str) -> RecordedScript:
        self._record("run_script", instance_id, script.text, script.directory, script.timeout_s)
        with self._lock:
            self.running_scripts += 1
            self.most_running_scripts = max(self.most_running_scripts, self.running_scripts)
        return RecordedScript(self, script)

    def stop(self, instance_id: str) -> None:
        self._record("stop", instance_id)

    def start(self, instance_id: str) -> None:
        self._record("start", instance_id)

    def reboot(self, instance_id: str) -> None:
        self._record("reboot", instance_id)

    def terminate(self, instance_id: str) -> None:
        self._record("terminate", instance_id)

    def create_disk(self, volume_id: str, spec: Any, snapshot_id: str | None = None) -> None:
        self._record("create_disk", volume_id, spec.size_gib, spec, *([snapshot_id] if snapshot_id else []))
        with self._lock:
            self.disks[volume_id] = spec

    def resources(self, instance_id: str) -> tuple[int, bool] | None:
        return self.held_resources.get(instance_id)

    def store_is_limited(self, instance_id: str) -> bool | None:
        return self.limited_stores.get(instance_id)

    def take_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        self._record("take_snapshot", snapshot_id, volume_id)

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._record("delete_snapshot", snapshot_id)

    def attach(self, volume_id: str, instance_id: str, device_name: str, card: int = 0) -> str:
        self._record("attach", volume_id, instance_id, device_name, *([card] if card else []))
        return "/dev/nvme1n1"

    def detach(self, volume_id: str, *, force: bool = False) -> bool:
        self._record("forced detach" if force else "detach", volume_id)
        return force or volume_id not in self.busy

    def delete_disk(self, volume_id: str) -> None:
        self._record("delete_disk", volume_id)
        with self._lock:
            self.disks.pop(volume_id, None)

    def modify(self, volume_id: str, spec: Any) -> None:
        self._record("modify", volume_id, spec)

    def console_output(self, instance_id: str) -> str:
        return f"{instance_id} login: käse\n"

    def machine_network(self) -> Throughput | None:
        gate = self.gates.get("machine_network")
        if gate is not None:
            self.probes_network.set()
            gate.wait(20)
        return self.carried

    def close(self) -> None:
        self._record("close")


class Calls:
    """Clients of one region, and the conditions that tests wait for."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.ec2 = self.client("ec2")

    def client(
        self,
        service: str,
        *,
        key_id: str | None = None,
        secret: str | None = None,
        region: str = "us-east-1",
        **config: Any,
    ) -> Any:
        return _SESSION.client(
            service,
            endpoint_url=self.front.url,
            region_name=region,
            aws_access_key_id=key_id or self.front.access_key.key_id,
            aws_secret_access_key=secret or self.front.access_key.secret,
            config=Config(retries={"max_attempts": 0}, max_pool_connections=40, **config),
        )

    def image(self, architecture: str = "x86_64") -> str:
        name = f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"
        return self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]

    def launch(self, instance_type: str = "m5.large", *, wait: bool = True, **more: Any) -> str:
        asked = {"ImageId": self.image(), "InstanceType": instance_type, "MinCount": 1, "MaxCount": 1, **more}
        instance_id = self.ec2.run_instances(**asked)["Instances"][0]["InstanceId"]
        if wait:
            self.wait_state(instance_id, "running")
        return instance_id

    def volume(self, zone: str = "us-east-1a", **more: Any) -> str:
        asked = {"AvailabilityZone": zone, "Size": 10, "VolumeType": "gp3", **more}
        return self.ec2.create_volume(**asked)["VolumeId"]

    def instance(self, instance_id: str) -> dict[str, Any]:
        return self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]

    def described_volume(self, volume_id: str) -> dict[str, Any]:
        return self.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]

    def wait_state(self, instance_id: str, state: str) -> None:
        until(lambda: self.instance(instance_id)["State"]["Name"] == state, f"{instance_id} is {state}")


def until(condition: Callable[[], Any], what: str, limit_s: float = 10.0) -> None:
    """Wait until a condition holds. Fails with its name after the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.005)
