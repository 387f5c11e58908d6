"""System calls for which Python 3.10 has no function. Imported by the region and by an instance's init.

Every function raises `OSError` with the kernel's message if the call fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_NICE_OF_LIMITS = -15

CAP_SYS_MODULE = 16
CAP_SYS_RAWIO = 17
CAP_SYS_BOOT = 22
CAP_SYS_TIME = 25
CAP_MKNOD = 27

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_TIMERSLACK = 29
_PR_SET_IO_FLUSHER = 57
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_FALLOC_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_IFF_UP = 0x1

_MEMORY_CGROUP = "/sys/fs/cgroup/memory/cgroup.procs"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, *([ctypes.c_ulong] * 4))
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
_libc.pivot_root.argtypes = (ctypes.c_char_p, ctypes.c_char_p)


def run_before_ordinary_threads() -> None:
    """Raise the priority of the calling thread, which enforces limits, above the load that it limits, if permitted."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE_OF_LIMITS)


def hold_deadlines(nice: int) -> None:
    """Make this process wake up on time under any load, and never wait for I/O that it serves itself.

    It uses no real-time class: that costs a third of the rate (measured). Settings that the machine forbids are
    skipped. In a full memory cgroup (v1) a process that needs memory waits until dirty pages are written, even if it
    must write them itself, which is a deadlock (measured). So this process leaves its cgroup.
    """
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    _libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as setting:
        setting.write("-1000")
    with contextlib.suppress(OSError), open(_MEMORY_CGROUP, "w", encoding="ascii") as group:
        group.write("0")  # itself


def punch_hole(descriptor: int, offset: int, length: int) -> None:
    """Release the blocks of a part of a file, which then reads as zeros. fallocate(2)."""
    _check(_libc.fallocate(descriptor, _FALLOC_PUNCH_HOLE_KEEP_SIZE, offset, length), "fallocate")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling thread (for PID: its next children) into new namespaces."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def in_network_namespace(path: str, work: Callable[[], T]) -> T:
    """Call ``work`` in the network namespace at ``path``, such as /proc/PID/ns/net, and return its result.

    A thread is in one namespace at a time, so this uses a new thread.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with open(path, "rb") as namespace:
                _check(_libc.setns(namespace.fileno(), CLONE_NEWNET), f"setns({path})")
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter, name="in a network namespace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None
    )
    _check(result, f"mount {kind or 'bind'} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Bind-mount ``source`` at ``target``, optionally read-only."""
    mount(source, target, flags=MS_BIND)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC)


def unmount(target: str, *, lazily: bool = False) -> None:
    """umount2(2)."""
    _check(_libc.umount2(target.encode(), MNT_DETACH if lazily else 0), f"umount {target}")


def make_mounts_private() -> None:
    """Make the mounts of this namespace invisible to others."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def change_root(new_root: str) -> None:
    """Make ``new_root``, a mount point, the root of this mount namespace and unmount the old one."""
    os.chdir(new_root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")  # the old root now lies on top of the new one
    unmount(".", lazily=True)
    os.chdir("/")


def use_congestion_control(*names: str) -> None:
    """Let TCP in this network namespace use the first of these algorithms that the kernel permits, if any."""
    for name in names:
        with contextlib.suppress(OSError):
            with open("/proc/sys/net/ipv4/tcp_congestion_control", "w", encoding="ascii") as setting:
                setting.write(name)
            return


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def drop_from_bounding_set(*capabilities: int) -> None:
    """Remove capabilities from every program that this process will execute."""
    for capability in capabilities:
        _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), f"prctl(PR_CAPBSET_DROP, {capability})")


def _ifreq_address(interface: str, address: str) -> bytes:
    return struct.pack("16sHH4s16x", interface.encode(), socket.AF_INET, 0, socket.inet_aton(address))


def set_interface_up(interface: str) -> None:
    """Bring an interface of this network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", interface.encode(), 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", interface.encode(), flags | _IFF_UP))


def set_interface_address(interface: str, address: str, netmask: str) -> None:
    """Set the IPv4 address of an interface of this network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFADDR, _ifreq_address(interface, address))
        fcntl.ioctl(control, _SIOCSIFNETMASK, _ifreq_address(interface, netmask))
