"""The throttle counters that EBS devices keep themselves: NVMe log page 0xD0, read as raw bytes.

Layout (little-endian): u32 magic at 0, from byte 8 u64s: read and write operations, read and write bytes,
read and write time in us, then the us spent above the volume's IOPS, the volume's throughput, the
instance's EBS IOPS and the instance's EBS throughput, then the queue length.
Source: the EBS user guide, "EBS detailed performance statistics". Reading it needs root and nvme-cli.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut, ToolMissing
from pytest_cloudbench.hosts.listener import operation
from pytest_cloudbench.verdicts.throttling import ThrottleDelta

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.hosts.devices import BlockDevice

LOG_PAGE = 0xD0
LOG_BYTES = 4096
EBS_MAGIC = 0x3C23B510
INSTANCE_STORE_MAGIC = 0xEC2C0D7E

_FIELDS = struct.Struct("<8x11Q")
_READ = (
    'tool=$1; shift; for each; do "$tool" get-log "$each" '
    f"--log-id={LOG_PAGE:#x} --log-len={LOG_BYTES} --namespace-id=1 --raw-binary || exit 1; done"
)


@dataclass(frozen=True)
class DeviceCounters:
    """One device's counters since it was attached; times in microseconds."""

    read_ops: int
    write_ops: int
    read_bytes: int
    write_bytes: int
    read_time_us: int
    write_time_us: int
    volume_iops_exceeded_us: int
    volume_throughput_exceeded_us: int
    instance_iops_exceeded_us: int
    instance_throughput_exceeded_us: int
    queue_length: int

    @classmethod
    def parse(cls, page: bytes) -> DeviceCounters:
        """Read one log page. ValueError when it is too short or not EC2's."""
        if len(page) < _FIELDS.size:
            raise ValueError(f"a log page of {len(page)} bytes is too short: {_FIELDS.size} are needed")
        (magic,) = struct.unpack_from("<I", page)
        if magic not in (EBS_MAGIC, INSTANCE_STORE_MAGIC):
            raise ValueError(f"the log page begins with {magic:#x}, not with EC2's {EBS_MAGIC:#x}")
        return cls(*_FIELDS.unpack_from(page))


@dataclass(frozen=True)
class CountersSnapshot:
    """The counters of some devices at one moment of this machine's monotonic clock."""

    taken_s: float
    devices: Mapping[str, DeviceCounters]

    def since(self, earlier: CountersSnapshot) -> ThrottleDelta:
        """Seconds above each limit between the two; of several devices the one that was longest above.

        A counter that went back (a device detached and attached again) counts from zero.
        """

        def longest_s(name: str) -> float:
            gained = [0.0]
            for path, now in self.devices.items():
                then = earlier.devices.get(path)
                value, start = getattr(now, name), getattr(then, name) if then is not None else 0
                gained.append((value - start if value >= start else value) / 1e6)
            return max(gained)

        return ThrottleDelta(
            elapsed_s=self.taken_s - earlier.taken_s,
            volume_iops_exceeded_s=longest_s("volume_iops_exceeded_us"),
            volume_throughput_exceeded_s=longest_s("volume_throughput_exceeded_us"),
            instance_iops_exceeded_s=longest_s("instance_iops_exceeded_us"),
            instance_throughput_exceeded_s=longest_s("instance_throughput_exceeded_us"),
        )


_without: WeakKeyDictionary[HostConnection, str] = WeakKeyDictionary()


@operation
def read_counters(host: HostConnection, devices: Sequence[BlockDevice]) -> CountersSnapshot | None:
    """The counters of those devices now, all in one command.

    None where they cannot be had: Xen devices, no nvme-cli and no way to install it, no such log page.
    On that host it is not tried again; `why_no_counters` says the reason.
    """
    paths = [device.path for device in devices]
    if host in _without or not paths or not all(path.startswith("/dev/nvme") for path in paths):
        return None
    try:
        tool = host.ensure_tool("nvme")
        said = host.run(["sh", "-c", _READ, "sh", tool, *paths], sudo=True, idempotent=True)
        taken_s = time.monotonic()
        pages = said.stdout_bytes
        if len(pages) != LOG_BYTES * len(paths):
            raise ValueError(f"{len(pages)} bytes came for {len(paths)} log pages")
        counters = {
            path: DeviceCounters.parse(pages[number * LOG_BYTES : (number + 1) * LOG_BYTES])
            for number, path in enumerate(paths)
        }
    except (ToolMissing, CommandFailed, CommandTimedOut, ValueError) as error:
        _without[host] = str(error)
        return None
    return CountersSnapshot(taken_s, counters)


def why_no_counters(host: HostConnection) -> str | None:
    """Why `read_counters` gave None on this host; None where it did not, or for devices that are not NVMe."""
    return _without.get(host)
