"""The init of an instance, run as a fresh interpreter: ``python -I -S boot.py``.

There are two processes. The outer one makes the namespaces and then waits until the inner one ends, or until its
standard input ends, which means that the region has ended (also after kill -9). The inner one is process 1 of the
instance: it builds the root, brings the network up, applies the user data, starts sshd and reaps zombies. When it
ends, the kernel ends all processes of the instance.

The region sends a JSON plan as the first line of standard input, and the word "plugged" as the second when the network
cable is connected. The two processes write JSON events ("unshared", "up", "failed", "killed") on standard output.
Standard error is the instance's console.

Only the standard library and two modules of this package are imported, and at the start: after the change of root this
machine's Python may be hidden.
"""

from __future__ import annotations

import base64
import contextlib
import grp
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

if __name__ == "__main__":  # with -I the package's own directory is not on the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.instance_commands import (
    BOOT_FINISHED,
    FAILED_SCRIPTS,
    LOGIN_PATH,
    PARTITIONS_FILE,
    ROOT_DISK_FILE,
)

_ENVIRONMENT = {
    "PATH": LOGIN_PATH,
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
}
_OUTPUT_LOG = "/var/log/cloud-init-output.log"
_HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
_CHARACTER_DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0),
    "kmsg": None, "btrfs-control": None, "fuse": None,
}  # fmt: skip
# EC2's images use cubic. If this machine uses BBR, it does not permit cubic in namespaces, and BBR achieves half of
# the rate of the region's network. At that network's round-trip times reno behaves like cubic.
CONGESTION_CONTROL = ("cubic", "reno")
# The exit codes of an instance that was shut down from inside.
POWERED_OFF = 10
REBOOTS = 11
_SHUTDOWNS = {signal.SIGTERM: 0, signal.SIGUSR1: REBOOTS, signal.SIGUSR2: POWERED_OFF}
DISK_GROUP = 6  # the number of the group disk in every distribution
METADATA_ADDRESS = "169.254.169.254"
_GRACE_S = 0.5
_UNMOUNT_S = 10.0


def _say(event: str, **facts: object) -> None:
    os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def _console(line: str) -> None:
    os.write(2, f"[{time.strftime('%H:%M:%S')}] {line}\n".encode())


# --- the outer process -------------------------------------------------------------------------------


def main() -> int:
    """Make the namespaces, start the inner process and wait for its end or for the region's."""
    plan = json.loads(_read_line())
    linux.unshare(
        linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWNET | linux.CLONE_NEWPID
    )
    init = os.fork()
    if init == 0:
        _run_init(plan)
    _say("unshared", pid=init)
    os.close(1)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(init, signal.SIGTERM))
    process = os.pidfd_open(init)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(0, 0)  # only to notice its end: the inner process reads its lines
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == process:
                return os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])
            os.kill(init, signal.SIGKILL)
            poll.unregister(0)


def _read_line() -> bytes:
    """Read one line of standard input, byte by byte, to leave the next line unread."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise SystemExit("the region has ended")
        line += byte
    return bytes(line)


# --- the inner process: process 1 of the instance ----------------------------------------------------


class _Shutdown(Exception):
    """A request to stop the instance, with the exit code of its end."""


def _run_init(plan: dict[str, Any]) -> NoReturn:
    code = 0
    try:
        linux.die_with_parent()
        for number in _SHUTDOWNS:
            signal.signal(number, _on_shutdown)
        _start(plan)
    except _Shutdown as shutdown:
        code = shutdown.args[0]
        _console("stopped while booting")
    except BaseException as error:
        _console(f"boot failed: {error!r}")
        with contextlib.suppress(OSError):
            _say("failed", sentence=str(error) or repr(error))
        os._exit(1)
    else:
        try:
            _reap_for_ever()
        except _Shutdown as shutdown:
            code = shutdown.args[0]
    for number in _SHUTDOWNS:
        signal.signal(number, signal.SIG_IGN)
    _shut_down()
    os._exit(code)


def _on_shutdown(number: int, frame: FrameType | None) -> NoReturn:
    raise _Shutdown(_SHUTDOWNS[signal.Signals(number)])


def _start(plan: dict[str, Any]) -> None:
    socket.sethostname(plan["hostname"])
    linux.use_congestion_control(*CONGESTION_CONTROL)
    _build_root(plan)
    linux.drop_from_bounding_set(
        linux.CAP_MKNOD, linux.CAP_SYS_MODULE, linux.CAP_SYS_BOOT, linux.CAP_SYS_TIME, linux.CAP_SYS_RAWIO
    )
    linux.set_interface_up("lo")
    linux.set_interface_address("lo:0", METADATA_ADDRESS, "255.255.255.255")
    if _read_line().strip() != b"plugged":
        raise RuntimeError("the network cable was not connected")
    linux.set_interface_address("eth0", plan["address"], plan["netmask"])
    linux.set_interface_up("eth0")
    if plan["public"] is not None:
        linux.set_interface_address("eth0:1", *plan["public"])
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    os.umask(0o022)
    first_boot = plan["first_boot"]
    if first_boot is not None:
        _prepare_first_boot(first_boot)
    _run_commands(plan["boot_commands"])
    _make_host_key()
    delay = (
        ["/bin/sh", "-c", f'sleep {plan["ssh_after_s"]:.3f}; exec "$0" "$@"'] if plan["ssh_after_s"] else []
    )
    sshd = subprocess.Popen(
        [*delay, "/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"],
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
    )
    _console(f"sshd started as process {sshd.pid}")
    _say("up")
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    if first_boot is not None:
        _in_a_child(first_boot)


def _build_root(plan: dict[str, Any]) -> None:
    linux.make_mounts_private()
    root = plan["root"]
    for layer in plan["layers"]:
        linux.mount(
            "cloudbench-root",
            root + layer["at"].rstrip("/") if layer["at"] != "/" else root,
            "overlay",
            options=f"lowerdir={layer['at']},upperdir={layer['upper']},workdir={layer['work']}",
        )
    _build_dev(f"{root}/dev", plan["nodes"])
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.mount(
        "sysfs", f"{root}/sys", "sysfs", linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    )
    for name in ("sys", "sysrq-trigger", "irq", "bus"):
        if os.path.exists(f"{root}/proc/{name}"):
            linux.bind(f"{root}/proc/{name}", f"{root}/proc/{name}", read_only=True)
    for name in ("kcore", "keys", "timer_list"):
        if os.path.exists(f"{root}/proc/{name}"):
            linux.bind(f"{root}/dev/null", f"{root}/proc/{name}")
    linux.mount("tmpfs", f"{root}/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    os.mkdir(f"{root}/run/sshd", 0o755)
    os.mkdir(f"{root}/run/lock")
    os.chmod(f"{root}/run/lock", 0o1777)  # noqa: S103  (world-writable, as on any system)
    for source, at in plan["counters"]:
        os.mkdir(f"{root}{at}", 0o755)
        linux.bind(source, f"{root}{at}", read_only=True)
    _write(f"{root}{ROOT_DISK_FILE}", plan["root_disk"].encode() + b"\n", 0o644)
    _write(f"{root}{PARTITIONS_FILE}", plan["partitions"].encode(), 0o644)
    linux.bind(f"{root}{PARTITIONS_FILE}", f"{root}/proc/partitions", read_only=True)
    linux.change_root(root)


def _build_dev(dev: str, nodes: list[dict[str, Any]]) -> None:
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID, "mode=755,size=16m")
    os.umask(0)
    for name, numbers in _CHARACTER_DEVICES.items():
        if numbers is None:
            if not os.path.exists(f"/dev/{name}"):
                continue
            device = os.stat(f"/dev/{name}").st_rdev
        else:
            device = os.makedev(*numbers)
        mode = 0o600 if numbers is None else 0o666
        os.mknod(f"{dev}/{name}", stat.S_IFCHR | mode, device)
    for target, name in (
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
        ("pts/ptmx", "ptmx"),
    ):
        os.symlink(target, f"{dev}/{name}")
    for name, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5"),
        ("shm", "tmpfs", "mode=1777"),
        ("mqueue", "mqueue", ""),
    ):
        os.mkdir(f"{dev}/{name}")
        with contextlib.suppress(OSError):
            linux.mount(kind, f"{dev}/{name}", kind, linux.MS_NOSUID | linux.MS_NOEXEC, options)
    for node in nodes:
        os.mknod(f"{dev}/{node['name']}", stat.S_IFBLK | 0o660, os.makedev(node["major"], node["minor"]))
        os.chown(f"{dev}/{node['name']}", 0, DISK_GROUP)
        for link in node["links"]:
            os.makedirs(f"{dev}/{os.path.dirname(link)}", mode=0o755, exist_ok=True)
            os.symlink(f"/dev/{node['name']}", f"{dev}/{link}")
    os.umask(0o022)


# --- first boot --------------------------------------------------------------------------------------


def _log(text: str) -> None:
    with open(_OUTPUT_LOG, "a", encoding="utf-8") as log:
        log.write(text + "\n")
    _console(text)


def _prepare_first_boot(first_boot: dict[str, Any]) -> None:
    """Apply the part of the user data that comes before the first login: host keys and files."""
    for note in first_boot["notes"]:
        _log(f"cloud-init: {note}")
    if first_boot["host_key_private"]:
        _write(_HOST_KEY, first_boot["host_key_private"].encode(), 0o600)
        if first_boot["host_key_public"]:
            _write(f"{_HOST_KEY}.pub", first_boot["host_key_public"].encode(), 0o644)
    for file in first_boot["files"]:
        try:
            _write_file(file)
        except (OSError, LookupError, ValueError) as error:
            _log(f"cloud-init: write_files: {file['path']}: {error}")


def _write(path: str, content: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def _write_file(file: dict[str, Any]) -> None:
    path = file["path"]
    content = base64.b64decode(file["content"])
    if file["append"] and os.path.exists(path):
        content = Path(path).read_bytes() + content
    _write(path, content, file["mode"])
    user, _, group = file["owner"].partition(":")
    shutil.chown(path, user or "root", group or grp.getgrgid(pwd.getpwnam(user or "root").pw_gid).gr_name)


def _run_commands(commands: list[str | list[str]]) -> int:
    """Run all of them and return the exit code of the last one, as a script does."""
    code = 0
    for command in commands:
        argv = command if isinstance(command, list) else ["/bin/sh", "-c", command]
        with open(_OUTPUT_LOG, "ab") as log:
            try:
                code = subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
            except OSError as error:
                _log(f"cloud-init: {argv!r}: {error}")
                code = 127
                continue
        if code != 0:
            _log(f"cloud-init: {argv!r} ended with exit code {code}")
    return code


def _make_host_key() -> None:
    if not os.path.exists(_HOST_KEY):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", _HOST_KEY],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=2,
        )
    elif not os.path.exists(f"{_HOST_KEY}.pub"):
        with open(f"{_HOST_KEY}.pub", "wb") as public:
            subprocess.run(
                ["ssh-keygen", "-y", "-f", _HOST_KEY], check=True, stdin=subprocess.DEVNULL, stdout=public
            )
    key = Path(f"{_HOST_KEY}.pub").read_text().strip()
    os.write(2, f"-----BEGIN SSH HOST KEY KEYS-----\n{key}\n-----END SSH HOST KEY KEYS-----\n".encode())


def _in_a_child(first_boot: dict[str, Any]) -> None:
    """Run scripts and runcmd while sshd runs, as cloud-init does."""
    if os.fork() != 0:
        return
    for number in _SHUTDOWNS:
        signal.signal(number, signal.SIG_DFL)
    failed = []
    try:
        if first_boot["script"] is not None:
            path = "/var/lib/cloud/instance/scripts/part-001"
            _write(path, base64.b64decode(first_boot["script"]), 0o700)
            if _run_commands([[path]]) != 0:
                failed.append("part-001")
        if _run_commands(first_boot["run_commands"]) != 0:
            failed.append("runcmd")
        _write(FAILED_SCRIPTS, " ".join(failed).encode(), 0o644)
        _write(BOOT_FINISHED, time.strftime("%FT%T\n").encode(), 0o644)
    finally:
        os._exit(0)


# --- running and ending ------------------------------------------------------------------------------


def _reap_for_ever() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            signal.pause()


def _shut_down() -> None:
    _console("shutting down")
    for number, grace_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _UNMOUNT_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)
        if number == signal.SIGKILL:
            with contextlib.suppress(OSError):
                _say("killed")
        _reap_until(time.monotonic() + grace_s)
    _unmount_disks()
    _console("halted")


def _reap_until(deadline: float) -> None:
    """Wait until no other process is left, at most until ``deadline``."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)


def _unmount_disks() -> None:
    """Unmount the file systems on volumes, so that all data is written before the volumes are detached."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        lines = [line.split() for line in mounts]
    for fields in reversed(lines):
        on_a_device = not fields[2].startswith("0:") or fields[fields.index("-") + 1] == "btrfs"
        if on_a_device:
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
            with contextlib.suppress(OSError):
                linux.unmount(point)


if __name__ == "__main__":
    sys.exit(main())
