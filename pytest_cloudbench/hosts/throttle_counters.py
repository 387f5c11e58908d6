"""The throttle counters of EBS devices (NVMe log page 0xD0), and additional ones of an embedded region.

Layout (little-endian): u32 magic at 0, from byte 8 u64s: read and write operations, read and write bytes,
read and write time in us, then the us spent above the volume's IOPS, the volume's throughput, the
instance's EBS IOPS and the instance's EBS throughput, then the queue length.
Source: the EBS user guide, "EBS detailed performance statistics". Reading the page needs root and nvme-cli.

An instance of an embedded region has a file for each volume, named like its device. After a copy of that page the file
has four u64s: a magic number, the I/Os answered, the total us that they take by the region's model, and the total us by
which this machine answered later than the model. AWS has no such file.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut, ToolMissing
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import MachineDelay

LOG_PAGE = 0xD0
LOG_BYTES = 4096
EBS_MAGIC = 0x3C23B510
INSTANCE_STORE_MAGIC = 0xEC2C0D7E
REGION_FILES = "/run/ebs-counters"
REGION_MAGIC = 0x626C6370_61636564

_FIELDS = struct.Struct("<8x11Q")
_REGION = struct.Struct("<4Q")
_NO_TOOL = 127
_READ_PAGES = (
    f'command -v "$tool" > /dev/null || exit {_NO_TOOL}; '
    'for each; do "$tool" get-log "$each" '
    f"--log-id={LOG_PAGE:#x} --log-len={LOG_BYTES} --namespace-id=1 --raw-binary || exit 1; done; "
)
# Zeros stand for a missing file.
_READ_REGION = (
    'for each; do if [ -f "$files/${each##*/}" ]; then dd if="$files/${each##*/}" '
    f"bs={_REGION.size} skip={LOG_BYTES // _REGION.size} count=1 2>/dev/null; "
    f"else head -c {_REGION.size} /dev/zero; fi; done"
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
        """Return the counters of a log page. Raises ValueError if it is too short or not EC2's."""
        if len(page) < _FIELDS.size:
            raise ValueError(
                f"a log page of {len(page)} bytes is too short: expected at least {_FIELDS.size}"
            )
        (magic,) = struct.unpack_from("<I", page)
        if magic not in (EBS_MAGIC, INSTANCE_STORE_MAGIC):
            raise ValueError(f"the log page begins with {magic:#x}, expected EC2's {EBS_MAGIC:#x}")
        return cls(*_FIELDS.unpack_from(page))


@dataclass(frozen=True)
class RegionCounters:
    """An embedded region's counters of one device since it was attached; times in microseconds."""

    answered: int
    modelled_us: int
    late_us: int


@dataclass(frozen=True)
class CountersSnapshot:
    """The counters of some devices at one moment of this machine's monotonic clock.

    ``devices`` is empty if the devices have no log page, ``region`` if they do not belong to an embedded region.
    """

    taken_s: float
    devices: Mapping[str, DeviceCounters]
    region: Mapping[str, RegionCounters] = field(default_factory=dict)

    def machine_delay(self, earlier: CountersSnapshot) -> MachineDelay | None:
        """Return the delay that the region counted since ``earlier``, over all devices; None without I/O, or on AWS.

        A counter that is lower now (the device was detached and attached again) counts from zero.
        """
        gained = []
        for path, now in self.region.items():
            then = earlier.region.get(path)
            if then is None or now.answered < then.answered:
                then = RegionCounters(0, 0, 0)
            if now.answered > then.answered:
                late_us = now.late_us - then.late_us
                gained.append((now.answered - then.answered, now.modelled_us - then.modelled_us, late_us))
        if not gained:
            return None
        answered, modelled_us, late_us = map(sum, zip(*gained, strict=True))
        return MachineDelay(answered, modelled_us / 1e6 / answered, late_us / 1e6 / answered, len(gained))

    def since(self, earlier: CountersSnapshot) -> ThrottleDelta | None:
        """Return the seconds above each limit since ``earlier``; None without log pages.

        Of several devices, the one that was above the limit longest counts. A counter that is lower now (the
        device was detached and attached again) counts from zero.
        """
        if not self.devices:
            return None

        def gained(name: str) -> list[int]:
            found = []
            for path, now in self.devices.items():
                then = earlier.devices.get(path)
                value, start = getattr(now, name), getattr(then, name) if then is not None else 0
                found.append(value - start if value >= start else value)
            return found

        def longest_s(name: str) -> float:
            return max(gained(name)) / 1e6

        return ThrottleDelta(
            elapsed_s=self.taken_s - earlier.taken_s,
            volume_iops_exceeded_s=longest_s("volume_iops_exceeded_us"),
            volume_throughput_exceeded_s=longest_s("volume_throughput_exceeded_us"),
            instance_iops_exceeded_s=longest_s("instance_iops_exceeded_us"),
            instance_throughput_exceeded_s=longest_s("instance_throughput_exceeded_us"),
            read_bytes=sum(gained("read_bytes")),
            written_bytes=sum(gained("write_bytes")),
        )


_without: WeakSet[Host] = WeakSet()
_without_region: WeakSet[Host] = WeakSet()


@operation("read_counters", repeatable=True)
def read_counters(host: Host, devices: Sequence[BlockDevice]) -> CountersSnapshot | None:
    """Return the counters of the devices at this moment, all read by one command.

    None if they cannot be read: Xen devices on AWS, no nvme-cli and no way to install it, no such log page.
    Such a host is not queried again.
    """
    paths = [device.path for device in devices]
    paged = all(path.startswith("/dev/nvme") for path in paths)
    if not paths or host in (_without if paged else _without_region):
        return None
    try:
        found = _read(host, paths, paged=paged)
        taken_s = time.monotonic()
        pages = LOG_BYTES * len(paths) if paged else 0
        if len(found) != pages + _REGION.size * len(paths):
            raise ValueError(f"the counters of {len(paths)} devices came as {len(found)} bytes")
        counters = {
            path: DeviceCounters.parse(found[number * LOG_BYTES : (number + 1) * LOG_BYTES])
            for number, path in enumerate(paths)
            if paged
        }
    except (ToolMissing, CommandFailed, CommandTimedOut, ValueError):
        (_without if paged else _without_region).add(host)
        return None
    region = {
        path: RegionCounters(*figures)
        for path, (magic, *figures) in zip(paths, _REGION.iter_unpack(found[pages:]), strict=True)
        if magic == REGION_MAGIC
    }
    if not counters and not region:
        _without_region.add(host)
        return None
    return CountersSnapshot(taken_s, counters, region)


def _read(host: Host, paths: Sequence[str], *, paged: bool) -> bytes:
    """Return the devices' log pages, if they have any, and then the region's figures."""
    script = f"files=$1; tool=$2; shift 2; {_READ_PAGES if paged else ''}{_READ_REGION}"

    def run(tool: str) -> bytes:
        argv = ["sh", "-c", script, "sh", REGION_FILES, tool, *paths]
        return host.run(argv, sudo=True, idempotent=True).stdout_bytes

    try:
        return run("nvme")
    except CommandFailed as error:
        if error.exit_code != _NO_TOOL:
            raise
    return run(host.ensure_tool("nvme"))
