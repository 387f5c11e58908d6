"""Folders of loads in directories of somebody's hosts: what is removed, and what is left as it is."""

import os
import subprocess
import sys

import pytest

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


def test_what_a_killed_run_left_is_ended_and_removed(host, data, killed_run):
    folder = left_by(killed_run, data)
    with (folder / "cloudbench.0.0").open() as file:
        load = subprocess.Popen(["sleep", "600"], stdin=file)
    try:
        claimed = claim_folder(host, str(data))
        assert claimed.removed == (str(folder),)
        assert load.wait(10) == -15
    finally:
        load.kill()
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


@pytest.mark.parametrize("line", ["", "x", "a b c", owner_line().rpartition(" ")[0], owner_line()])
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
