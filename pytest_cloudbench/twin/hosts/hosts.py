"""Instances as processes: starting one, waiting until one can log in, stopping it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.limits.network_options import PLAIN_NETWORK, NetworkOptions
from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.boot import DISK_GROUP, POWERED_OFF, REBOOTS
from pytest_cloudbench.twin.hosts.instance_commands import (
    ALLOWANCES_DIRECTORY,
    COUNTERS_DIRECTORY,
    PARTITIONS_FILE,
)
from pytest_cloudbench.twin.hosts.root_disk import RootDisk
from pytest_cloudbench.twin.hosts.user_data import parse_user_data
from pytest_cloudbench.twin.slots import PUBLIC_NETMASK, Slot

if TYPE_CHECKING:
    from pytest_cloudbench.limits.instances import EbsCard, EbsLimit, LocalDisk
    from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
    from pytest_cloudbench.twin.region_parts import RegionParts

_BOOT_S = 30.0
_STOP_S = 20.0
_KILL_S = 5.0
_CONSOLE_BYTES = 64 * 1024
_FS_IOC_SHUTDOWN, _WITHOUT_THE_LOG = 0x8004587D, struct.pack("=I", 2)
_BOOT = Path(__file__).with_name("boot.py")


class BootFailed(RuntimeError):
    """An instance did not come up; the message is a sentence that says why."""


@dataclass(frozen=True)
class HostPlan:
    """Everything that the data plane needs to know about an instance to be booted.

    ``authorized_keys`` are lines as in an authorized_keys file. ``user_data`` is the decoded user data. ``ebs_limit``
    is the instance's limit over all its volumes (None: no limit), ``ebs_baseline`` what remains of it when burst
    credits are spent (None: no burst). ``ebs_cards`` has the limits of each EBS card of a type with several.
    ``network`` has the rates to which its network is shaped; None leaves it unshaped. ``network_credits`` is the bucket
    of its network bursts, ``placement_group`` the name of its cluster placement group, within which a flow may be
    faster. ``local_disks`` is its NVMe instance store. sshd starts with a delay of ``ssh_after_s`` seconds.
    ``public_ip`` is its public address at its first boot. ``netmask`` is that of its VPC; None means the default VPC,
    whose private addresses this machine reaches. ``vcpus`` and ``memory_mib`` are those of its type; None does not
    limit them.
    """

    instance_id: str
    instance_type: str
    private_ip: str
    hostname: str
    login_user: str
    authorized_keys: tuple[str, ...]
    user_data: bytes = b""
    ebs_limit: EbsLimit | None = None
    ebs_baseline: EbsLimit | None = None
    ebs_cards: tuple[EbsCard, ...] = ()
    nitro: bool = True
    network: ShapedRates | None = None
    network_credits: NetworkCredits | None = None
    placement_group: str | None = None
    local_disks: tuple[LocalDisk, ...] = ()
    vcpus: int | None = None
    memory_mib: int | None = None
    network_options: NetworkOptions = PLAIN_NETWORK
    ssh_after_s: float = 0.0
    public_ip: str | None = None
    netmask: str | None = None


def _console(slot: Slot, instance_id: str) -> Path:
    return slot.directory / f"{instance_id}.console"


def remove_console(slot: Slot, instance_id: str) -> None:
    """Remove the console output of an instance."""
    _console(slot, instance_id).unlink(missing_ok=True)


def read_console(slot: Slot, instance_id: str) -> str:
    """Return the end of an instance's console output over all its boots."""
    with contextlib.suppress(FileNotFoundError):
        return _console(slot, instance_id).read_bytes()[-_CONSOLE_BYTES:].decode(errors="replace")
    return ""


@dataclass(frozen=True)
class Node:
    """A block device as it appears in an instance's /dev."""

    name: str
    major: int
    minor: int
    links: tuple[str, ...] = ()


@dataclass
class Host:
    """One instance. It runs while ``process`` is set. Its root disk stays in `directory` until that is removed.

    It runs on the processors ``cpus``, with ``memory_bytes`` of memory; None allows all of this machine's.
    `public_ip` is its public address, which may change with each boot and in between.
    ``on_plugged`` is called with the process whose namespace has its eth0, before any program there can use it;
    ``on_unplugging`` is called before its cable is removed. ``on_shutdown`` is called in a thread of its own when the
    instance was shut down from inside, with True if it is to boot again. `registered_at` is when SSM Agent first
    answered, in seconds since the epoch.
    """

    plan: HostPlan
    parts: RegionParts
    on_plugged: Callable[[int], None]
    on_unplugging: Callable[[], None]
    on_shutdown: Callable[[bool], None]
    cpus: tuple[int, ...]
    memory_bytes: int | None = None
    process: subprocess.Popen[bytes] | None = None
    init_pid: int = 0
    memory_is_limited: bool = False
    _nodes: dict[str, Node] = field(default_factory=dict, repr=False)
    _disk: RootDisk | None = field(default=None, repr=False)
    _boot_commands: list[str | list[str]] = field(default_factory=list)
    _hostname: str = ""
    _booted_once: bool = False
    _plugged_in: bool = False
    registered_at: float | None = None
    public_ip: str | None = None
    _up_at: float | None = None

    @property
    def directory(self) -> Path:
        """The directory of its root disk."""
        return self.parts.store.roots / self.plan.instance_id

    @property
    def processes_file(self) -> str:
        """The file into which a process writes its PID to share the memory limit of the instance."""
        return self.parts.memory.processes_file(self.plan.instance_id)

    @property
    def counters(self) -> Path:
        """The directory of its volumes' pages, which the instance can read."""
        return self.directory / "counters"

    @property
    def allowances(self) -> Path:
        """The directory of its interface's page, which the instance can read."""
        return self.directory / "allowances"

    @property
    def running(self) -> bool:
        """True if the instance's init is alive."""
        return self.process is not None and self.process.poll() is None

    @property
    def agent_answers(self) -> bool:
        """True if SSM Agent would answer now: the instance is running and its boot, including sshd's delay, is over."""
        up_at = self._up_at
        return up_at is not None and self.running and time.monotonic() >= up_at + self.plan.ssh_after_s

    def start(self, nodes: list[Node]) -> None:
        """Boot, and wait until sshd answers, unless it is delayed. Raises `BootFailed`; then nothing runs."""
        try:
            self._start(nodes)
        except BaseException as error:
            self.kill()
            if isinstance(error, (BootFailed, KeyboardInterrupt, SystemExit)):
                raise
            raise BootFailed(f"{self.plan.instance_id} did not boot: {error}") from error

    def _start(self, nodes: list[Node]) -> None:
        plan = self.plan
        self._nodes = {node.name: node for node in nodes}
        first_boot = None
        deadline = time.monotonic() + _BOOT_S
        self.process = self.parts.workshop.run(self._spawn)  # it loads its modules meanwhile
        if not self._booted_once:
            first_boot = parse_user_data(plan.user_data)
            keys = [*plan.authorized_keys, *first_boot.authorized_keys]
            self._hostname = hostname = first_boot.hostname or plan.hostname
            self._boot_commands = first_boot.boot_commands
            disk = self.directory / "disk"
            self.parts.memory.make_disk(plan.instance_id, disk)
            self._disk = self.parts.workshop.run(
                lambda: RootDisk(
                    disk, hostname, plan.private_ip, plan.login_user, keys, outbound=self.parts.outbound
                )
            )
        assert self._disk is not None
        # Set before it reads its plan, so everything that it starts has the same limits.
        os.sched_setaffinity(self.process.pid, self.cpus)
        self.memory_is_limited = self.parts.memory.hold(plan.instance_id, self.process.pid, self.memory_bytes)
        boot_plan = {
            "hostname": self._hostname,
            "address": plan.private_ip,
            "netmask": plan.netmask or self.parts.network.netmask,
            "public": [self.public_ip, PUBLIC_NETMASK] if self.public_ip else None,
            "ssh_after_s": plan.ssh_after_s,
            "layers": [vars(layer) for layer in self._disk.layers],
            "root": str(self.directory / "root"),
            "counters": [
                (str(self.counters), COUNTERS_DIRECTORY),
                (str(self.allowances), ALLOWANCES_DIRECTORY),
            ],
            "nodes": [vars(node) for node in nodes],
            "root_disk": self._root_disk,
            "partitions": self.parts.workshop.run(self._partitions),
            "boot_commands": self._boot_commands,  # cloud-init runs bootcmd at every boot
            "first_boot": vars(first_boot) if first_boot else None,
        }
        self._send(json.dumps(boot_plan).encode())
        self.init_pid = self._expect("unshared", deadline)["pid"]
        self.parts.network.plug_in(self.init_pid, plan.private_ip)
        self._plugged_in = True
        self.on_plugged(self.init_pid)
        self._send(b"plugged")
        self._expect("up", deadline)
        if self.public_ip is not None:
            self.parts.network.announce(self.init_pid, plan.private_ip, self.public_ip)
        if not plan.ssh_after_s:
            self._wait_for_sshd(deadline)
        self._booted_once = True
        self._up_at = time.monotonic()
        if self.registered_at is None:
            self.registered_at = time.time() + plan.ssh_after_s
        threading.Thread(
            target=self._watch, args=(self.process,), name=f"end of {plan.instance_id}", daemon=True
        ).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of this boot, and report it if the instance itself has ended it."""
        try:
            end = os.pidfd_open(process.pid)
        except ProcessLookupError:  # it was ended and reaped at once
            end = None
        if end is not None:
            ended = select.poll()
            ended.register(end, select.POLLIN)
            ended.poll()
            os.close(end)
        code = process.wait()
        if code in (POWERED_OFF, REBOOTS):
            self.on_shutdown(code == REBOOTS)

    def _spawn(self) -> subprocess.Popen[bytes]:
        (self.directory / "root").mkdir(parents=True, exist_ok=True)
        for pages in (self.counters, self.allowances):
            pages.mkdir(parents=True, exist_ok=True)
            pages.chmod(0o755)  # whatever the umask
        output = _console(self.parts.slot, self.plan.instance_id)
        only_root = functools.partial(os.open, mode=0o600)  # user data may have printed a secret
        with open(output, "ab", opener=only_root) as console:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(_BOOT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=console,
                bufsize=0,
                env={},
                start_new_session=True,  # Ctrl-C in the user's terminal is not for instances
            )

    def _send(self, line: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        data = line + b"\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended: `_expect` finds out why
            while data:
                data = data[self.process.stdin.write(data) :]

    def _expect(self, event: str, deadline: float) -> dict[str, Any]:
        """Wait for the next event of the instance's init. Raises `BootFailed` if it is not the expected one."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = b""
        ready = select.poll()  # select() takes no descriptor above 1023
        ready.register(self.process.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise BootFailed(
                    f"{self.plan.instance_id} did not boot within {_BOOT_S:.0f} s ({event!r} missing)"
                )
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                raise BootFailed(f"{self.plan.instance_id} died while booting: {self._last_words()}")
            line += byte
        received: dict[str, Any] = json.loads(line)
        if received["event"] == "failed":
            raise BootFailed(f"{self.plan.instance_id} did not boot: {received['sentence']}")
        if received["event"] != event:
            raise BootFailed(
                f"{self.plan.instance_id}: expected {event!r} while booting, got {received['event']!r}"
            )
        return received

    def _last_words(self) -> str:
        lines = read_console(self.parts.slot, self.plan.instance_id).strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def set_public_ip(self, address: str | None) -> None:
        """Give the instance this public address now, or at its next boot if it does not run. None removes it."""
        self.public_ip = address
        if self.running:
            self.parts.network.set_public_address(self.init_pid, self.plan.private_ip, address)

    def _connect_to_sshd(self) -> socket.socket:
        def connect() -> socket.socket:
            return socket.create_connection((self.public_ip or self.plan.private_ip, 22), timeout=1.0)

        if self.public_ip or self.plan.netmask is None:
            return connect()
        # This machine has no route to it.
        return linux.in_network_namespace(f"/proc/{self.init_pid}/ns/net", connect)

    def _wait_for_sshd(self, deadline: float) -> None:
        pause_s = 0.002
        while True:
            try:
                with self._connect_to_sshd() as connection:
                    connection.settimeout(2.0)
                    if connection.recv(64).startswith(b"SSH-"):
                        return
            except OSError:
                pass
            if not self.running:
                raise BootFailed(f"{self.plan.instance_id} ended before sshd answered: {self._last_words()}")
            if time.monotonic() > deadline:
                raise BootFailed(
                    f"sshd of {self.plan.instance_id} did not answer at {self.public_ip or self.plan.private_ip} "
                    f"within {_BOOT_S:.0f} s: {self._last_words()}"
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)

    def end_programs(self) -> None:
        """Begin to shut the instance down: return when its programs have been killed."""
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(BootFailed):  # it has ended, or does not answer
                self._expect("killed", time.monotonic() + _STOP_S)

    def stop(self) -> None:
        """Wait until the instance, whose programs have ended, has unmounted its file systems; then end it."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """End the instance at once. A second call does nothing."""
        process, self.process, self.init_pid, self._up_at = self.process, None, 0, None
        if process is None:
            return
        # At the end of its input the outer process kills the inner one and waits for it. So when the outer process
        # has ended, nothing of the instance runs any more.
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._plugged_in:
            self.on_unplugging()
            self.parts.network.unplug(self.plan.private_ip)
            self._plugged_in = False
        if process.stdout is not None:
            process.stdout.close()

    def add_node(self, node: Node) -> None:
        """Make a device node, with its links, in the /dev of the running instance."""
        init_pid = self.init_pid
        with instance_directory(init_pid, "dev") as dev:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(node.name, dir_fd=dev)
            os.mknod(node.name, 0o060660, os.makedev(node.major, node.minor), dir_fd=dev)
            os.chmod(node.name, 0o660, dir_fd=dev)
            os.chown(node.name, 0, DISK_GROUP, dir_fd=dev)
        for link in node.links:
            place, name = os.path.split(f"dev/{link}")
            # If the instance has just ended, its links have gone with it.
            with (
                contextlib.suppress(FileNotFoundError),
                instance_directory(init_pid, place, create=True) as directory,
            ):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                os.symlink(f"/dev/{node.name}", name, dir_fd=directory)
        self._nodes[node.name] = node
        self.show_partitions()

    def remove_node(self, node: Node) -> None:
        """Remove a device node and its links from the /dev of the running instance."""
        with instance_directory(self.init_pid, "dev") as dev, contextlib.suppress(FileNotFoundError):
            os.unlink(node.name, dir_fd=dev)
        for link in node.links:
            place, name = os.path.split(f"dev/{link}")
            with contextlib.suppress(OSError), instance_directory(self.init_pid, place) as directory:
                os.unlink(name, dir_fd=directory)
        self._nodes.pop(node.name, None)
        self.show_partitions()

    @property
    def _root_disk(self) -> str:
        return "nvme0n1" if self.plan.nitro else "xvda"

    def _partitions(self) -> str:
        """Return the instance's /proc/partitions. It lacks RAID and LVM devices, which only programs inside know."""
        facts = os.statvfs(self.directory / "disk")
        lines = [
            "major minor  #blocks  name",
            "",
            _partition(259, 0, facts.f_blocks * facts.f_frsize, self._root_disk),
        ]
        for node in self._nodes.values():
            sectors = Path(f"/sys/dev/block/{node.major}:{node.minor}/size").read_text()
            lines.append(_partition(node.major, node.minor, int(sectors) * 512, node.name))
        return "\n".join(lines) + "\n"

    def show_partitions(self) -> None:
        """Write the present devices and sizes into the instance's /proc/partitions."""
        text = self.parts.workshop.run(self._partitions)
        place, name = os.path.split(PARTITIONS_FILE.lstrip("/"))
        # The instance may have just ended.
        with contextlib.suppress(OSError), instance_directory(self.init_pid, place) as directory:
            file = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=directory)
            with open(file, "w", encoding="ascii") as partitions:
                partitions.write(text)

    def shut_down_file_systems(self, major: int, minor: int) -> None:
        """Make the file systems on a device fail at once, as Linux does when an NVMe device is removed.

        ext4 and XFS support that. Others fail when they next write to the device.
        """
        try:
            mounts = Path(f"/proc/{self.init_pid}/mountinfo").read_text().splitlines()
        except OSError:  # it has ended
            return
        for fields in map(str.split, mounts):
            if fields[2] == f"{major}:{minor}":
                point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]).strip("/")
                with contextlib.suppress(OSError), instance_directory(self.init_pid, point) as directory:
                    fcntl.ioctl(directory, _FS_IOC_SHUTDOWN, _WITHOUT_THE_LOG)


def _partition(major: int, minor: int, size: int, name: str) -> str:
    return f"{major:4d}  {minor:7d} {size // 1024:10d} {name}"


@contextlib.contextmanager
def instance_directory(init_pid: int, path: str, *, create: bool = False) -> Iterator[int]:
    """Open a directory of an instance, never through a symbolic link: the instance could point one at this machine.

    ``init_pid`` is its process 1. ``path`` begins at its root, without a slash.
    """
    descriptor = os.open(f"/proc/{init_pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.split("/"):
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=descriptor)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)
