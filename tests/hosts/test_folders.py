"""Folders of loads in directories of somebody's hosts: what is removed, and what is left as it is."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from pytest_cloudbench.hosts import folders
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.folders import claim_folder, ended, owner_line, remove_folder
from pytest_cloudbench.hosts.job_scripts import base_directory

OWNER = """
import sys
sys.path[:0] = {path!r}
from pytest_cloudbench.hosts.folders import owner_line
print(owner_line())
"""


@pytest.fixture(scope="module")
def killed_run():
    """The owner line of a process of this machine that has ended."""
    code = OWNER.format(path=sys.path)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def left_by(owner, directory, name="cloudbench-0123456789ab"):
    folder = directory / name
    folder.mkdir()
    (folder / ".owner").write_text(owner + "\n")
    (folder / "cloudbench.0.0").write_bytes(bytes(4096))
    return folder


@pytest.fixture
def data(tmp_path):
    """A directory with a space in its name, and somebody's data."""
    made = tmp_path / "my data"
    made.mkdir()
    (made / "table").write_text("rows")
    (made / "cloudbench-notes").mkdir()
    return made


def test_a_load_gets_a_folder_of_its_own_and_the_rest_stays(host, data):
    before = sorted(data.iterdir())
    claimed = claim_folder(host, f"{data}/")
    assert os.path.dirname(claimed.path) == str(data)
    assert os.stat(claimed.path).st_mode & 0o777 == 0o700
    assert (claimed.removed, claimed.left) == ((), ())
    assert claimed.filesystem
    (data / claimed.path / "file").write_text("of the load")
    remove_folder(host, claimed.path)
    remove_folder(host, claimed.path)
    assert sorted(data.iterdir()) == before


@contextlib.contextmanager
def reading(folder, **environment):
    """A process that has a file of the folder open, as a load has it, or a backup."""
    with (folder / "cloudbench.0.0").open() as file:
        process = subprocess.Popen(["sleep", "600"], stdin=file, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_a_killed_run_left_is_ended_and_removed(host, data, killed_run):
    folder = left_by(killed_run, data)
    with reading(folder, CLOUDBENCH_JOB="fio-1") as load, reading(folder) as backup:
        claimed = claim_folder(host, str(data))
        assert claimed.removed == (str(folder),)
        assert load.wait(10) == -15
        assert backup.poll() is None
    assert not folder.exists()
    assert (data / "table").read_text() == "rows"


def test_the_folder_of_a_living_run_is_left_and_that_of_another_machine_is_named(host, data):
    living = left_by(owner_line(), data)
    words = owner_line().split(" ")
    other = left_by(" ".join(["another-boot/pid:[1]", *words[1:4], "ci-7"]), data, "cloudbench-ba9876543210")
    claimed = claim_folder(host, str(data))
    assert claimed.removed == ()
    (sentence,) = claimed.left
    assert str(other) in sentence
    assert f"a run on ci-7 at {words[3]}" in sentence
    assert living.exists()
    assert other.exists()


NO_CONTAINER = "pid:[4026531836]"


@pytest.fixture
def rebooted(monkeypatch):
    """Returns the owner line of a run before this machine's last boot; the rest of the test is after it."""

    def owner(namespace):
        monkeypatch.setattr(folders, "_machine_id", lambda: "0a1b2c3d")
        monkeypatch.setattr(folders, "_machine", lambda: f"boot-1/{namespace}")
        line = owner_line()
        monkeypatch.setattr(folders, "_machine", lambda: f"boot-2/{namespace}")
        return line

    return owner


def test_a_folder_from_before_a_reboot_is_removed_unless_a_load_runs_in_it(host, data, rebooted):
    folder = left_by(rebooted(NO_CONTAINER), data)
    with reading(folder, CLOUDBENCH_JOB="fio-1") as load:
        claimed = claim_folder(host, str(data))
        assert (claimed.removed, len(claimed.left)) == ((), 1)
        assert load.poll() is None
    assert claim_folder(host, str(data)).removed == (str(folder),)


def test_containers_with_the_id_of_one_image_are_not_one_machine(host, data, rebooted):
    left_by(rebooted("pid:[4026532321]"), data)
    assert claim_folder(host, str(data)).removed == ()


def test_what_anybody_left_is_removed_a_day_later_unless_a_load_runs_in_it(host, data):
    folder = left_by("another-boot/pid:[1] 12 34 2026-11-22T10:00+00:00 ci-7", data)
    long_ago = time.time() - 90_000
    paths = [*folder.iterdir(), folder]
    for each in paths:
        os.utime(each, (long_ago, long_ago))
    with reading(folder, CLOUDBENCH_JOB="fio-1"):
        assert claim_folder(host, str(data)).removed == ()
    os.utime(paths[0])
    assert claim_folder(host, str(data)).removed == ()
    os.utime(paths[0], (long_ago, long_ago))
    claimed = claim_folder(host, str(data))
    assert (claimed.removed, claimed.left) == ((str(folder),), ())


def test_a_living_run_keeps_its_folder_however_old_it_is(host, data):
    folder = left_by(owner_line(), data)
    for each in (*folder.iterdir(), folder):
        os.utime(each, (1_000_000_000, 1_000_000_000))
    assert claim_folder(host, str(data)).removed == ()


def test_the_message_has_no_command_that_a_space_would_make_another(host, data):
    folder = data / "cloudbench-0123456789ab"
    folder.mkdir()
    with pytest.raises(NotOurs) as refused:
        remove_folder(host, str(folder))
    assert f"'{folder}'" in str(refused.value)
    assert "rm -rf" not in str(refused.value)


@pytest.mark.parametrize("kind", ["without an owner", "a link"])
def test_only_a_claimed_folder_is_removed(host, data, killed_run, kind):
    folder = data / "cloudbench-0123456789ab"
    if kind == "a link":
        folder.symlink_to(left_by(killed_run, data, "elsewhere"))
    else:
        folder.mkdir()
        (folder / "file").write_text("somebody's")
    with pytest.raises(NotOurs, match="could not be removed"):
        remove_folder(host, str(folder))
    assert claim_folder(host, str(data)).removed == ()
    assert list(folder.iterdir())


@pytest.mark.parametrize(
    "line",
    ["", "x", "a b c", owner_line().rpartition(" ")[0], owner_line()],
    ids=["empty", "a word", "three words", "without machine", "this process"],
)
def test_a_run_that_is_not_known_to_have_ended_has_not(line):
    assert not ended(line)


def test_jobs_of_killed_runs_are_removed_a_day_after_their_end(host, data):
    job, young = (host.start_job(["true"], name="killed") for _ in range(2))
    for each in (job, young):
        each.wait(10)
    long_ago = 1_000_000_000
    os.utime(job.directory, (long_ago, long_ago))
    running = host.start_job(["sleep", "60"], name="running")
    try:
        os.utime(running.directory, (long_ago, long_ago))
        remove_folder(host, claim_folder(host, str(data)).path)
        assert not os.path.exists(job.directory)
        assert os.path.exists(young.directory)
        assert os.path.exists(running.directory)
    finally:
        running.kill()
        running.cleanup()
        young.cleanup()
    assert job.directory.startswith(base_directory(host.user))
