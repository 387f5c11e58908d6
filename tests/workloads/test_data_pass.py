"""Passes over every block of devices and files: the command line, and real fio on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_targets import HostTarget
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.data_pass import (
    BLOCK,
    Initialisation,
    Whole,
    initialise,
    pass_argv,
    pass_over,
    prefill,
)
from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioError
from pytest_cloudbench.workloads.fio.progress import Progress
from pytest_cloudbench.workloads.pace import QUICK_DATA, Pace

MIB = 1 << 20


def _sections(argv: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the jobs of a command line, each with its options."""
    found: list[dict[str, str]] = []
    for word in argv[1:]:
        key, _, value = word.removeprefix("--").partition("=")
        if key == "name":
            found.append({})
        if found:
            found[-1][key] = value
    return found


@given(
    st.lists(
        st.tuples(st.integers(min_value=1, max_value=1 << 32), st.sampled_from(["read", "write"])),
        min_size=1,
        max_size=5,
    )
)
def test_the_jobs_cover_every_byte_of_each_device_once(asked: list[tuple[int, str]]) -> None:
    wholes = [
        Whole(f"/dev/d{number}", Size(sectors * 512), way)  # type: ignore[arg-type]
        for number, (sectors, way) in enumerate(asked)
    ]
    argv = pass_argv(wholes)
    sections = _sections(argv)
    assert ("--readonly" in argv) == all(way == "read" for _, way in asked)
    for whole in wholes:
        mine = sorted((int(each["offset"]), each) for each in sections if each["filename"] == whole.path)
        reached = 0
        for offset, each in mine:
            assert offset == reached
            assert each["rw"] == whole.way
            assert int(each["size"]) % int(each["bs"]) == 0
            assert int(each["bs"]) % 512 == 0
            assert int(each["bs"]) <= BLOCK.bytes
            reached += int(each["size"])
        assert reached == whole.size.bytes


def test_a_missing_device_is_not_created() -> None:
    assert "--allow_file_create=0" in pass_argv([Whole("/dev/nvme9n1", Size(MIB), "write")])
    assert "--filename=/dev/odd\\:name" in pass_argv([Whole("/dev/odd:name", Size(MIB), "write")])


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[Whole]]:
    """Two loop devices, one with a size that blocks of 1 MiB do not fill."""
    if os.geteuid() != 0:
        pytest.skip("making a loop device needs root")
    made: list[Whole] = []
    try:
        for number, size in enumerate((24 * MIB, 16 * MIB + 4096 * 3)):
            backing = tmp_path / f"backing{number}"
            backing.touch()
            os.truncate(backing, size)
            said = subprocess.run(
                ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
            )
            if said.returncode != 0:
                pytest.skip(f"this machine makes no loop device: {said.stderr.strip()}")
            made.append(Whole(said.stdout.strip(), Size(size), "write"))
        yield made
    finally:
        for each in made:
            subprocess.run(["losetup", "--detach", each.path], check=True)


def _target(host: SshHost, wholes: list[Whole]) -> HostTarget:
    return HostTarget(host, "block", tuple(each.path for each in wholes))


@pytest.mark.embedded
def test_every_block_is_written_side_by_side(host: SshHost, devices: list[Whole], tmp_path: Path) -> None:
    seen: list[Progress] = []
    done = initialise(_target(host, devices), devices, on_progress=seen.append)
    assert (done.way, done.size.bytes) == ("write", 40 * MIB + 4096 * 3)
    assert done.seconds > 0
    assert str(done).startswith("initialised: every block written once before, 40,972 KiB in ")
    assert all(0 <= progress.percent <= 100 for progress in seen)
    for number, each in enumerate(devices):
        content = (tmp_path / f"backing{number}").read_bytes()
        assert len(content) == each.size.bytes
        blank = [at for at in range(0, len(content), 4096) if not any(content[at : at + 4096])]
        assert blank == [], "no block was left out"


@pytest.mark.embedded
def test_reading_every_block_changes_nothing(host: SshHost, devices: list[Whole], tmp_path: Path) -> None:
    reading = [Whole(each.path, each.size, "read") for each in devices]
    before = [_sectors_read(each.path) for each in reading]
    done = initialise(_target(host, reading), reading)
    assert "every block read once before" in str(done)
    read = [_sectors_read(each.path) - then for each, then in zip(reading, before, strict=True)]
    assert all(sectors * 512 >= each.size.bytes for sectors, each in zip(read, reading, strict=True))
    for number in range(2):
        assert not any((tmp_path / f"backing{number}").read_bytes())


def _sectors_read(path: str) -> int:
    return int(Path(f"/sys/block/{Path(path).name}/stat").read_text().split()[2])


@pytest.mark.embedded
def test_too_much_data_for_the_machine_is_refused_before_a_byte_is_written(
    host: SshHost, devices: list[Whole], tmp_path: Path
) -> None:
    target = _target(host, devices)
    target.has_room_for = Size(20 * MIB)
    with pytest.raises(
        TargetError, match=r"writing every block of test target would bring 40,972 KiB .*20 MiB"
    ):
        initialise(target, devices)
    assert not any((tmp_path / "backing0").read_bytes())
    reading = [Whole(each.path, each.size, "read") for each in devices]
    assert initialise(target, reading).way == "read", "reading takes no room"


def test_a_pass_does_not_create_a_missing_device(host: SshHost) -> None:
    missing = Whole("/dev/nvme77n1", Size(MIB), "write")
    with pytest.raises(FioError, match="nvme77n1"):
        pass_over(host, [missing], sudo=False)
    assert not os.path.exists(missing.path)


def test_an_interrupted_pass_leaves_no_fio_behind(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_progress: Progress) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "file"
    # A million writes in a row take long enough to be interrupted, whatever the disk; none of it need be written.
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.BLOCK", Size(4096))
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.DEPTH", 1)
    with pytest.raises(KeyboardInterrupt):
        pass_over(
            host,
            [Whole(str(file), Size(4 << 30), "write")],
            sudo=False,
            makes_files=True,
            on_progress=interrupt,
        )
    running = host.run(["pgrep", "-af", str(file)], check=False).stdout
    assert [line for line in running.splitlines() if "fio" in line.split()[1]] == []


def test_a_file_is_laid_out_in_full(directory: HostTarget, tmp_path: Path) -> None:
    laid_out = prefill(directory, Size(9 * MIB + 4096))
    content = Path(laid_out.path).read_bytes()
    assert len(content) == 9 * MIB + 4096
    assert all(any(content[at : at + 4096]) for at in range(0, len(content), 4096))
    assert Path(laid_out.path).parent == tmp_path
    assert laid_out.conditions == ()
    assert str(laid_out).startswith("file of 9,220 KiB written before, in ")


def test_the_quick_pace_makes_a_smaller_file_and_says_so(
    directory: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.data_pass.QUICK_DATA", Size(2 * MIB))
    laid_out = prefill(directory, Size(8 * MIB), pace=Pace.QUICK)
    assert os.stat(laid_out.path).st_size == 2 * MIB
    assert laid_out.conditions == ("quick pace: prefilled file 8 MiB -> 2 MiB",)
    assert QUICK_DATA.bytes == 1 << 30
    assert prefill(directory, Size(MIB), pace=Pace.QUICK).conditions == ()


def test_a_file_that_does_not_fit_is_refused(directory: HostTarget, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"a file of 1,073,741,824 GiB does not fit"):
        prefill(directory, Size(1 << 60))
    directory.has_room_for = Size(8 * MIB)
    with pytest.raises(TargetError, match=r"a file of 64 MiB on test target would bring 64 MiB of data"):
        prefill(directory, Size(64 * MIB))
    with pytest.raises(BadFioJob, match="a file of 1,000 bytes cannot be laid out"):
        prefill(directory, Size(1000))
    assert list(tmp_path.iterdir()) == []


def test_an_initialisation_too_short_to_time_has_a_text() -> None:
    assert str(Initialisation("write", Size(MIB), 0.0)).endswith("1 MiB in 0 s (0 MiB/s)")
