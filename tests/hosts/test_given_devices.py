"""Raw devices of a host that is there already: a loop device of this machine that a test made."""

import os
import re
import subprocess

import pytest
from test_plain_hosts import DOCS, inventory_host

from pytest_cloudbench.hosts.errors import DeviceNotFound, NotOurs
from pytest_cloudbench.hosts.given_devices import prove_given_device
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.plain_hosts import PlainHosts
from pytest_cloudbench.resources.plain_host import PlainHost
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import run_fio

pytestmark = pytest.mark.embedded


@pytest.fixture
def loop(tmp_path):
    """A loop device over a sparse file; it is removed afterwards, with its mounts."""
    if os.geteuid() != 0:
        pytest.skip("making a loop device needs root")
    backing = tmp_path / "backing"
    backing.touch()
    os.truncate(backing, 64 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], check=False, capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"this machine makes no loop device: {made.stderr.strip()}")
    path = made.stdout.strip()
    yield path
    subprocess.run(["umount", "--all-targets", path], check=False, capture_output=True)
    subprocess.run(["losetup", "--detach", path], check=True)


@pytest.fixture
def opened(sshd):
    """Opens the local host; `devices` are those that its owner allows to overwrite."""
    hosts = []

    def open_host(*devices, **changes):
        provider = PlainHosts([inventory_host(sshd, devices=devices, **changes)])
        (launched,) = provider.find_hosts()
        hosts.append(PlainHost(provider, launched))
        return hosts[-1]

    yield open_host
    for each in hosts:
        each.close()


WRITES = FioJob.of("randwrite", "4k", rate_iops=300, iodepth=2, runtime=2)
READS = FioJob.of("randread", "4k", rate_iops=300, iodepth=2, runtime=2)


def test_an_allowed_device_is_written_by_any_of_its_names(opened, loop, tmp_path):
    link = tmp_path / "by-id"
    link.symlink_to(loop)
    device = opened(str(link)).device(loop, destructive=True)
    assert (device.path, device.size.bytes, device.label) == (loop, 64 << 20, f"{loop} on host db1")
    run = run_fio(device, WRITES)
    assert run.reaches("280 IOPS")
    assert opened(loop).device(str(link), destructive=True).path == loop


def test_reading_needs_no_consent_and_writing_needs_both(opened, loop):
    reads_only = opened(loop).device(loop)
    assert run_fio(reads_only, READS).reaches("280 IOPS")
    with pytest.raises(NotOurs, match="destructive=True"):
        run_fio(reads_only, WRITES)
    with pytest.raises(NotOurs, match="--cloudbench-allow-device"):
        opened().device(loop, destructive=True)
    with pytest.raises(NotOurs, match="allowed: /dev/null"):
        opened("/dev/null").device(loop, destructive=True)


def test_raw_reads_are_measured_as_the_docs_show(opened, loop):
    (text,) = re.findall(
        r"^```python\n(def test_raw_reads.*?)^```$", (DOCS / "hosts.md").read_text(), re.M | re.S
    )
    smaller = {
        "/dev/disk/by-id/nvme-SAMSUNG_MZVL2_S64KNX0R": loop,
        "50,000": "250",
        "iodepth=32": "rate_iops=300",
    }
    for word, other in {**smaller, "runtime=30": "runtime=2"}.items():
        assert word in text
        text = text.replace(word, other)
    names = {}
    exec(text, names)
    names["test_raw_reads"](opened(), lambda device, **job: run_fio(device, FioJob.of(**job)))


def test_a_device_with_content_is_read_and_not_written(opened, loop, tmp_path):
    subprocess.run(["mkfs.ext4", "-q", loop], check=True)
    assert opened().device(loop).path == loop
    with pytest.raises(NotOurs, match="carries ext4"):
        opened(loop).device(loop, destructive=True)
    at = tmp_path / "mounted"
    at.mkdir()
    subprocess.run(["mount", loop, str(at)], check=True)
    for destructive in (False, True):
        with pytest.raises(NotOurs, match=rf"is mounted on .*directory\('{at}'\)"):
            opened(loop).device(loop, destructive=destructive)


def test_content_that_comes_after_the_first_look_is_seen(opened, loop):
    device = opened(loop).device(loop, destructive=True)
    subprocess.run(["mkswap", loop], check=True, capture_output=True)
    with pytest.raises(NotOurs, match="swap"):
        run_fio(device, WRITES)


def test_another_device_under_the_same_name_is_refused(opened, loop):
    device = opened(loop).device(loop, destructive=True)
    device._identity = "S4EVNX0R"
    with pytest.raises(NotOurs, match="was S4EVNX0R before"):
        device.prove_writable()


def test_the_root_device_and_what_is_no_device_are_refused(opened, tmp_path):
    source = subprocess.run(
        ["findmnt", "-n", "-o", "SOURCE", "/"], check=False, capture_output=True, text=True
    ).stdout.strip()
    if source.startswith("/dev/"):
        with pytest.raises(NotOurs, match=r"root file system|partition"):
            opened(source).device(source, destructive=True)
    with pytest.raises(DeviceNotFound):
        opened().device(str(tmp_path / "missing"))
    with pytest.raises(DeviceNotFound, match="not a block device"):
        opened().device("/dev/null")


class WithoutSudo(ShellHost):
    """A host whose user is not root and has no sudo without a password."""

    def execute(self, command):
        return command.result(1 if "sudo" in command.line else 0, b"", b"sudo: a password is required\n")


def test_a_user_without_sudo_is_told_what_to_use():
    with pytest.raises(NotOurs, match="measure in a directory"):
        prove_given_device(WithoutSudo("host db1", user="me"), "/dev/sdb")
