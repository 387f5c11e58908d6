"""``doctor``: what this machine can do for an embedded region, and the remedy for what it lacks. Changes nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pytest_cloudbench.limits.quantities import GIB
from pytest_cloudbench.twin.hosts.instance_commands import LOGIN_PATH

State = Literal["ok", "missing", "limited"]
_APT = "apt-get install -y {}"
_TOOLS = {
    # program: (package of Debian and Ubuntu, whether a region requires it, purpose)
    "fio": ("fio", False, "the load on volumes, and what this machine's disks serve"),
    "sshd": ("openssh-server", True, "logging in to instances"),
    "ssh-keygen": ("openssh-client", True, "host keys of instances"),
    "sudo": ("sudo", True, "the login user's root rights in instances"),
    "ip": ("iproute2", True, "the region's network"),
    "unshare": ("util-linux", True, "the region's network namespace"),
    "nsenter": ("util-linux", False, "commands sent by SSM"),
    "setpriv": ("util-linux", False, "commands sent by SSM"),
    "mount": ("mount", True, "file systems in instances"),
    "mkfs.ext4": ("e2fsprogs", True, "file systems in instances"),
    "mkfs.xfs": ("xfsprogs", False, "XFS in instances"),
    "mkfs.btrfs": ("btrfs-progs", False, "btrfs in instances, and striping their volumes"),
    "tc": ("iproute2", False, "shaping the network"),
    "ethtool": ("ethtool", False, "ethtool commands beyond the network allowance counters"),
    "iperf3": ("iperf3", False, "network loads"),
    "nvme": ("nvme-cli", False, "NVMe commands beyond the EBS throttle counters"),
}
_ON_HOSTS = ("fio", "iperf3", "sudo", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs")
"""Programs that instances run: they are searched in an instance's PATH, not in that of this process."""
_HTB = "tc qdisc add dev lo root handle 1: htb"
_FILTER = 'tc filter add dev lo parent 1: protocol all prio 1 bpf bytecode "1,6 0 0 65538"'
_LITTLE_MEMORY = 4 * GIB
_TOO_LITTLE_MEMORY = GIB
_TRY_S = 10.0
_CAP_SYS_RESOURCE = 1 << 24
_FUSE = "/dev/fuse"


@dataclass(frozen=True)
class Check:
    """The result of one check. "missing": no region can run; "limited": a region can do less."""

    name: str
    state: State
    finding: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n{'':12}remedy: {self.remedy}" if self.remedy else ""
        return f"{self.state:8}{self.name}: {self.finding}{remedy}"


def examine() -> list[Check]:
    """Check everything that a region needs."""
    python = _python()
    if python.state == "missing":
        return [python]  # other checks import the region's modules, which need ctypes
    return [check() for check in _CHECKS] + [_tool(program) for program in _TOOLS]


def missing_checks(checks: list[Check]) -> list[Check]:
    """Return the checks that prevent a region."""
    return [check for check in checks if check.state == "missing"]


def report(checks: list[Check]) -> str:
    """Return the findings, one per line, and the conclusion."""
    missing = missing_checks(checks)
    limited = [check for check in checks if check.state == "limited"]
    if missing:
        end = f"No embedded region can run here: {', '.join(check.name for check in missing)} missing."
    elif limited:
        end = f"An embedded region can run here, limited by: {', '.join(check.name for check in limited)}."
    else:
        end = "An embedded region can run here."
    return "\n".join([*(str(check) for check in checks), "", end])


def _try(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command; return exit code 127 if it cannot be started or does not end in time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _tool(program: str) -> Check:
    package, needed, purpose = _TOOLS[program]
    place = shutil.which(program, path=LOGIN_PATH) if program in _ON_HOSTS else shutil.which(program)
    if place is not None:
        return Check(program, "ok", place)
    return Check(program, "missing" if needed else "limited", f"not found; {purpose}", _APT.format(package))


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", "ok", "running as root")
    sudo = shutil.which("sudo")
    if sudo is not None and _try(sudo, "-n", "true").returncode == 0:
        return Check("root", "ok", "sudo -n works")
    return Check(
        "root", "missing", "neither root nor sudo without a password",
        "run as root, or allow this user sudo without a password (NOPASSWD in sudoers)",
    )  # fmt: skip


def _python() -> Check:
    version = platform.python_version()
    try:
        import ctypes  # noqa: F401 - some builds of Python lack it
    except ImportError:
        remedy = _APT.format("libffi-dev, then build Python again")
        return Check("python", "missing", f"{version} without ctypes", remedy)
    return Check("python", "ok", f"{version} at {sys.executable}")


def _extra() -> Check:
    missing = [name for name in ("moto", "werkzeug") if importlib.util.find_spec(name) is None]
    if missing:
        finding = f"{' and '.join(missing)} not installed for {sys.executable}"
        return Check("extra [twin]", "missing", finding, "pip install 'pytest-cloudbench[twin]'")
    return Check("extra [twin]", "ok", "moto and werkzeug are installed")


def _loop_devices() -> Check:
    if Path("/dev/loop-control").exists():
        return Check("loop devices", "ok", "/dev/loop-control exists")
    return Check("loop devices", "missing", "no /dev/loop-control", "modprobe loop")


def _fuse() -> Check:
    try:
        os.close(os.open(_FUSE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            return Check("FUSE", "ok", f"{_FUSE} exists and can be opened by root only")
        return Check(
            "FUSE", "missing", f"{_FUSE} cannot be opened, so there are no volumes: {error.strerror}",
            "modprobe fuse; in a container, run it with --device /dev/fuse or --privileged",
        )  # fmt: skip
    return Check("FUSE", "ok", f"{_FUSE} can be opened")


def _waits_for_no_io() -> Check:
    """Check that the process that serves volumes may set PR_SET_IO_FLUSHER, so it does not wait for its own I/O."""
    name = "memory pressure"
    found = re.search(r"^CapEff:\s+(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if os.geteuid() != 0 or (found and int(found.group(1), 16) & _CAP_SYS_RESOURCE):
        return Check(name, "ok", "volumes continue while memory is short")
    return Check(
        name, "limited",
        "without CAP_SYS_RESOURCE a memory limit that is reached may stop volumes, and resize2fs cannot enlarge a "
        "mounted ext4",
        "in a container, run it with --cap-add SYS_RESOURCE or --privileged",
    )  # fmt: skip


def _memory_of_instances() -> Check:
    v1, v2 = (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/cgroup.subtree_control"),
    )
    place = next((path.parent for path in (v1, v2) if path.exists()), None)
    if place is not None and not os.statvfs(place).f_flag & os.ST_RDONLY:
        return Check("memory of instances", "ok", f"limited by control groups in {place}")
    return Check(
        "memory of instances", "limited", "no control groups can be made: instances have all of this machine's memory",
        "in a container, run it with --privileged",
    )  # fmt: skip


def _namespaces() -> Check:
    names = ("mnt", "net", "pid", "uts", "ipc")
    missing = [name for name in names if not Path(f"/proc/self/ns/{name}").exists()]
    if missing:
        finding = f"the kernel has no {', '.join(missing)} namespaces"
        return Check("namespaces", "missing", finding, "boot a stock kernel")
    if os.geteuid() == 0:
        done = _try("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "true")
        if done.returncode != 0:
            finding = f"they cannot be made: {done.stderr.strip()}"
            return Check("namespaces", "missing", finding, "in a container, run it with --privileged")
    return Check("namespaces", "ok", ", ".join(names))


def _overlay() -> Check:
    if "\toverlay\n" in Path("/proc/filesystems").read_text():
        return Check("overlay", "ok", "the kernel has overlayfs")
    if _try("modinfo", "overlay").returncode == 0:
        return Check("overlay", "ok", "overlayfs is a module, loaded when needed")
    return Check("overlay", "missing", "the kernel has no overlayfs", "modprobe overlay")


def _bridge() -> Check:
    name = "bridge and veth"
    if Path("/sys/module/bridge").exists():
        return Check(
            name, "ok", "the kernel has a bridge; veth, which every stock kernel has too, was not tried"
        )
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return Check(name, "ok", "every stock kernel has them; only root with ip can try it")
    done = _try(
        "unshare", "--net", "sh", "-c",
        "ip link add name cbbridge type bridge && ip link add name cbport type veth peer name cbcable",
    )  # fmt: skip
    if done.returncode == 0:
        return Check(name, "ok", "made and removed")
    return Check(name, "missing", done.stderr.strip(), "modprobe bridge veth")


def _try_tc(name: str, what: str, command: str) -> Check:
    """Try a part of traffic control in a new network namespace; a stock kernel loads the module for it."""
    if shutil.which("tc") is None:
        return Check(name, "limited", "no tc: the network is not shaped", _APT.format("iproute2"))
    if os.geteuid() != 0:
        return Check(name, "ok", f"tc exists; {what} can be tried by root only")
    done = _try("unshare", "--net", "sh", "-c", command)
    if done.returncode == 0:
        return Check(name, "ok", f"tc with {what}")
    reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
    return Check(
        name, "limited", f"no {what}, so the network is not shaped: {reason[0]}",
        "modprobe sch_htb cls_bpf; on Ubuntu they may be in linux-modules-extra-$(uname -r)",
    )  # fmt: skip


def _memory() -> Check:
    from pytest_cloudbench.twin.volumes.disks import memory_available

    available = memory_available()
    text = f"{available / GIB:.1f} GiB available, most of it for volumes' data"
    if available < _TOO_LITTLE_MEMORY:
        remedy = "free memory, or keep volumes in a directory: --backing DIR"
        return Check("memory for volumes", "missing", text, remedy)
    if available < _LITTLE_MEMORY:
        return Check("memory for volumes", "limited", text, "keep volumes in a directory: --backing DIR")
    return Check("memory for volumes", "ok", text)


_CHECKS: tuple[Callable[[], Check], ...] = (
    _root, _python, _extra, _loop_devices, _fuse, _waits_for_no_io, _memory_of_instances, _namespaces, _overlay,
    _bridge, partial(_try_tc, "network rates", "htb", _HTB),
    partial(_try_tc, "network flows", "the bpf filter", f"{_HTB} && {_FILTER}"), _memory,
)  # fmt: skip
