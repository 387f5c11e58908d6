"""Data on devices that were there before: only a difference counts as data, any other end of `cmp` is an error."""

import subprocess
from types import SimpleNamespace

import pytest

from pytest_cloudbench.hosts import content
from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, WouldDestroy

SIZE = 2 << 20


def host_with(tools):
    """A host that runs commands here, with no other programs than those in ``tools``."""

    def run(argv, **options):
        done = subprocess.run(
            ["/bin/sh", *argv[1:]], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CommandFailed("host", argv, done.returncode, done.stdout, done.stderr)
        return SimpleNamespace(stdout=done.stdout)

    host = SimpleNamespace(label="host", run=run)
    host.perform = lambda name, arguments, body: body()
    return host


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    blockdev = folder / "blockdev"
    blockdev.write_text(f"#!/bin/sh\necho {SIZE}\n")
    blockdev.chmod(0o755)
    return folder


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "device"
    path.write_bytes(bytes(SIZE))
    return path


def refuse(tools, device):
    content.refuse_data(host_with(tools), {str(device): f"name of {device}"}, overwrite=False)


@pytest.mark.parametrize("code", [127, 2], ids=["no cmp", "an I/O error"])
@pytest.mark.fault("disks", "whether a device has data cannot be read")
def test_a_comparison_that_fails_is_not_data(tools, device, code):
    if code != 127:
        (tools / "cmp").write_text(f"#!/bin/sh\nexit {code}\n")
        (tools / "cmp").chmod(0o755)
    with pytest.raises(FilesystemError, match=f"cannot read whether {device} on host have data"):
        refuse(tools, device)


def test_a_difference_is_data(tools, device):
    (tools / "cmp").symlink_to("/usr/bin/cmp")
    refuse(tools, device)
    with device.open("r+b") as stream:
        stream.seek(SIZE - 1)
        stream.write(b"x")
    content._written_by_us.clear()
    with pytest.raises(WouldDestroy, match=f"{device} has data"):
        refuse(tools, device)
