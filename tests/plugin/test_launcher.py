"""Start and end of the embedded region, and the errors when that fails."""

import contextlib
import json
import os
import resource
import stat
import subprocess
import sys

import pytest

from pytest_cloudbench import launcher
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.launcher import RegionEnded, RegionRecord, RegionUnavailable

READY = {
    "endpoint_url": "http://127.0.0.1:1",
    "region": "us-east-1",
    "access_key": "AKIDEXAMPLE",
    "secret_key": "not a secret",
    "ssh_from_cidr": "198.18.0.1/32",
    "pid": 1,
    "slot": 0,
}


@pytest.fixture
def plain_user(monkeypatch, tmp_path):
    """Not root; the only programs to be found are those the test writes."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(launcher, "SUDO_PATH", str(tmp_path))

    def program(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return program


@pytest.fixture
def stand_in(monkeypatch):
    """Start a small program of the test's in place of the region."""

    def use(code):
        monkeypatch.setattr(launcher, "twin_command", lambda *_: [sys.executable, "-c", code])

    return use


@pytest.fixture
def no_low_descriptor():
    """Every descriptor below 1024 is taken, as select() takes no other."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip(f"this machine allows {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 1024:
        taken.append(os.dup(taken[0]))
    yield
    for number in taken:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_root_and_sudo_the_error_names_the_remedies(plain_user):
    with pytest.raises(
        RegionUnavailable, match=r"not root and sudo is not installed.*--cloudbench-cloud=aws"
    ):
        launcher.start_leased_region()


def test_a_sudo_that_asks_for_a_password_is_explained(plain_user):
    plain_user("sudo", 'echo "sudo: a password is required" >&2; exit 1')
    with pytest.raises(RegionUnavailable, match=r"run `sudo -v` first") as refused:
        launcher.start_leased_region()
    assert Cleaner().text(str(refused.value)) == str(refused.value), "nothing looks like a secret"


def test_a_plain_user_goes_through_sudo_without_a_prompt(plain_user):
    sudo = plain_user("sudo", "exit 0")
    assert launcher.twin_command("serve")[:2] == [str(sudo), "-n"]


@pytest.mark.parametrize("sudo", [None, 'echo "sudo: a password is required" >&2; exit 1'])
def test_commands_that_only_look_need_no_root(plain_user, sudo):
    if sudo is not None:
        plain_user("sudo", sudo)
    assert launcher.twin_command("doctor", needs_root=False)[0] == "env"
    plain_user("sudo", "exit 0")
    assert launcher.twin_command("doctor", needs_root=False)[1] == "-n"


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A process that looks like that of a region, and the record of the region that it keeps in slot 3."""
    monkeypatch.setattr(launcher, "STATE_DIR", tmp_path)
    (tmp_path / "3").mkdir()
    stays = [sys.executable, "-c", "print(flush=True); input()", "pytest_cloudbench.twin"]
    with subprocess.Popen(stays, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as region:
        region.stdout.readline()  # its command line is not there yet while it begins
        record = {**READY, "pid": region.pid, "slot": 3}
        (tmp_path / "3" / "access.json").write_text(json.dumps(record))
        yield RegionRecord.from_json(record)
        region.communicate(b"\n")


def test_a_kept_region_is_used_only_if_the_environment_names_it(kept, monkeypatch):
    monkeypatch.delenv(launcher.KEPT_VARIABLE, raising=False)
    assert launcher.kept_region() is None
    monkeypatch.setenv(launcher.KEPT_VARIABLE, kept.environment()[launcher.KEPT_VARIABLE])
    assert launcher.kept_region() == kept


def test_an_environment_that_names_a_region_that_has_ended_is_refused(kept, monkeypatch):
    monkeypatch.setenv(launcher.KEPT_VARIABLE, "http://127.0.0.1:2")
    with pytest.raises(RegionEnded, match=rf"http://127\.0\.0\.1:2.*`unset {launcher.KEPT_VARIABLE}"):
        launcher.kept_region()


def test_a_record_whose_process_id_was_reused_is_no_kept_region(kept, tmp_path, monkeypatch):
    monkeypatch.setenv(launcher.KEPT_VARIABLE, kept.endpoint_url)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / "3" / "access.json").write_text(json.dumps({**READY, "pid": stranger.pid}))
        with pytest.raises(RegionEnded):
            launcher.kept_region()
        stranger.kill()


def test_a_kept_region_is_found_by_its_slot(kept):
    assert launcher.kept_region_of_slot(3) == kept
    with pytest.raises(RegionUnavailable, match=r"slot 4 .*twin status"):
        launcher.kept_region_of_slot(4)


def test_the_region_s_own_reason_and_remedy_are_passed_on(stand_in):
    answer = {"error": "No loop devices.", "remedy": "Load the loop module: modprobe loop."}
    stand_in(f"print({json.dumps(answer)!r}); raise SystemExit(3)")
    with pytest.raises(RegionUnavailable, match=r"cannot start: No loop devices\. Load the loop module"):
        launcher.start_leased_region()


@pytest.mark.usefixtures("no_low_descriptor")
def test_a_process_with_a_thousand_open_files_starts_a_region(stand_in):
    stand_in(f"print({json.dumps({'error': 'no loop devices'})!r})")
    with pytest.raises(RegionUnavailable, match="no loop devices"):
        launcher.start_leased_region()


def test_reason_and_remedy_are_two_sentences(stand_in):
    stand_in(f"print({json.dumps({'error': 'no loop devices', 'remedy': 'Load them.'})!r})")
    with pytest.raises(RegionUnavailable, match=r"cannot start: no loop devices\. Load them\.$"):
        launcher.start_leased_region()


def test_a_backing_folder_is_relative_to_the_caller(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert launcher.backed_by("data") == ["--backing", str(tmp_path / "data")]
    assert launcher.backed_by("~/data") == ["--backing", "/home/someone/data"]
    assert launcher.backed_by("") == launcher.backed_by(None) == []


def test_a_time_factor_reaches_the_region_unrounded():
    assert launcher.time_compressed(1) == launcher.time_compressed(1.0) == []
    assert launcher.time_compressed(60.0) == ["--time", "60"]
    assert launcher.time_compressed(1.5) == ["--time", "1.5"]


def test_a_record_has_its_time_factor_and_an_older_one_defaults_to_1():
    assert RegionRecord.from_json(READY).time_compression == 1.0
    assert RegionRecord.from_json({**READY, "time_compression": 60.0}).time_compression == 60.0


@pytest.mark.parametrize(("kept", "asked"), [(1.0, 60.0), (60.0, 1.0), (60.0, 61.0)])
def test_a_kept_region_with_another_time_factor_is_refused(monkeypatch, kept, asked):
    record = RegionRecord.from_json({**READY, "slot": 3, "time_compression": kept})
    monkeypatch.setattr(launcher, "kept_region", lambda: record)
    assert launcher.kept_region_with(kept) is record
    anew = "cloudbench twin up" + (f" --time {asked:.0f}" if asked != 1 else "")
    with pytest.raises(RegionUnavailable) as refused:
        launcher.kept_region_with(asked)
    assert str(refused.value) == (
        f"the region that is kept (slot 3) runs with a factor of time of {kept:.0f}, not {asked:.0f}: use it as it "
        f"is (pytest --cloudbench-twin-time={kept:.0f}), or restart it: `cloudbench twin down 3; {anew}`"
    )


def test_the_latency_reaches_the_region_unless_it_is_the_default():
    assert launcher.with_latency("ebs") == []
    assert launcher.with_latency("none") == ["--latency", "none"]


def test_a_record_has_its_latency_and_an_older_one_the_default():
    assert RegionRecord.from_json(READY).latency == "ebs"
    assert RegionRecord.from_json({**READY, "latency": "none"}).latency == "none"


def test_a_kept_region_with_another_latency_is_refused(monkeypatch):
    record = RegionRecord.from_json({**READY, "slot": 3, "time_compression": 60.0})
    monkeypatch.setattr(launcher, "kept_region", lambda: record)
    assert launcher.kept_region_with(latency="ebs") is record
    with pytest.raises(RegionUnavailable) as refused:
        launcher.kept_region_with(60.0, "none")
    assert str(refused.value) == (
        "the region that is kept (slot 3) runs with latency 'ebs', not 'none': use it as it is (pytest "
        "--cloudbench-twin-latency=ebs), or restart it: `cloudbench twin down 3; cloudbench twin up --time 60 "
        "--latency none`"
    )


def test_a_kept_region_that_differs_in_both_is_refused_with_both(monkeypatch):
    record = RegionRecord.from_json({**READY, "slot": 3, "time_compression": 60.0, "latency": "none"})
    monkeypatch.setattr(launcher, "kept_region", lambda: record)
    with pytest.raises(RegionUnavailable) as refused:
        launcher.kept_region_with(1.0, "ebs")
    assert str(refused.value) == (
        "the region that is kept (slot 3) runs with a factor of time of 60, not 1 and with latency 'none', not "
        "'ebs': use it as it is (pytest --cloudbench-twin-time=60 --cloudbench-twin-latency=none), or restart "
        "it: `cloudbench twin down 3; cloudbench twin up`"
    )


def test_a_kept_region_is_refused_after_the_package_has_changed(monkeypatch):
    digest = launcher.package_digest()
    record = RegionRecord.from_json({**READY, "slot": 3, "package_digest": digest})
    monkeypatch.setattr(launcher, "kept_region", lambda: record)
    assert launcher.kept_region_with() is record
    monkeypatch.setattr(launcher, "package_digest", lambda: "another")
    with pytest.raises(RegionUnavailable, match=r"is not as it was.*`cloudbench twin down 3; eval"):
        launcher.kept_region_with()


def test_without_a_kept_region_any_factor_is_accepted(monkeypatch):
    monkeypatch.setattr(launcher, "kept_region", lambda: None)
    assert launcher.kept_region_with(60.0) is None


def test_the_region_gets_no_aws_variables_of_the_user(stand_in, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "bench")
    stand_in("import os, sys; sys.exit(os.environ.get('AWS_PROFILE', 'no profile'))")
    with pytest.raises(RegionUnavailable, match="it said: no profile"):
        launcher.start_leased_region()


def test_failing_to_end_a_region_of_root_does_not_hide_the_error(stand_in, monkeypatch):
    """A plain user may not signal what sudo started: Ctrl-C must still be Ctrl-C."""

    def refused(_):
        raise PermissionError("Operation not permitted")

    def interrupted(*_):
        raise KeyboardInterrupt

    stand_in("import time; time.sleep(600)")
    monkeypatch.setattr(launcher, "ABANDON_S", 0.2)
    monkeypatch.setattr(launcher, "_ready_line", interrupted)
    monkeypatch.setattr(subprocess.Popen, "terminate", refused)
    with pytest.raises(KeyboardInterrupt):
        launcher.start_leased_region()


def test_a_region_that_dies_before_it_is_ready_has_its_output_in_the_error(stand_in):
    stand_in("import sys; sys.exit('no room on /run')")
    with pytest.raises(RegionUnavailable, match=r"ended with exit code 1; it said: no room on /run"):
        launcher.start_leased_region()


def test_a_region_that_never_becomes_ready_is_ended(stand_in, monkeypatch):
    monkeypatch.setattr(launcher, "START_LIMIT_S", 0.3)
    stand_in("import sys; sys.stdin.read()")
    with pytest.raises(RegionUnavailable, match=r"was not ready within 0\.3 s"):
        launcher.start_leased_region()


def test_closing_the_lease_ends_the_region_and_its_exit_code_counts(stand_in):
    stand_in(f"import sys; print({json.dumps(READY)!r}, flush=True); sys.stdin.read(); sys.exit(1)")
    region = launcher.start_leased_region()
    assert region.record.environment()["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    with pytest.raises(RegionUnavailable, match="ended with exit code 1"):
        region.close()
    region.close()


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (
            "os.kill(os.getpid(), 9)",
            r"with exit code -9, SIGKILL, perhaps by the kernel because memory ran out",
        ),
        ("sys.exit(137)", r"with exit code 137, SIGKILL, perhaps"),
        ("sys.exit(3)", r"with exit code 3: what ran on it is lost"),
    ],
)
def test_a_region_that_ends_early_raises_how_it_ended_and_the_remedy(stand_in, ending, words):
    stand_in(f"import os, sys; print({json.dumps(READY)!r}, flush=True); sys.stdin.readline(); {ending}")
    region = launcher.start_leased_region()
    region.check()
    region._process.stdin.write(b"\n")
    region._process.stdin.flush()
    region._process.wait(20)
    for _ in range(2):
        with pytest.raises(RegionEnded, match=f"process 1.*{words}.*Start the tests again") as ended:
            region.check()
    assert ended.value.region is region


@pytest.mark.parametrize("told", [True, False])
def test_close_reports_how_a_region_ended_unless_a_test_has(stand_in, told):
    stand_in(f"import sys; print({json.dumps(READY)!r}, flush=True); sys.exit(3)")
    region = launcher.start_leased_region()
    region._process.wait(20)
    region.end_was_reported = told
    with (
        contextlib.nullcontext() if told else pytest.raises(RegionUnavailable, match="ended with exit code 3")
    ):
        region.close()


def test_a_kept_region_that_is_gone_raises():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    record = RegionRecord.from_json({**READY, "pid": ended.pid, "slot": 3})
    with pytest.raises(
        RegionEnded, match=rf"kept \(slot 3, process {ended.pid}\) ended.*`cloudbench twin up`"
    ):
        launcher.check_kept(record)
    serving = [sys.executable, "-c", "print(flush=True); input()", "pytest_cloudbench.twin"]
    with subprocess.Popen(serving, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # its command line can be read by now
        launcher.check_kept(RegionRecord.from_json({**READY, "pid": process.pid}))


SERVING = f"""
import json, os, sys
print(json.dumps({{**{READY!r}, "pid": os.getpid()}}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def serving(monkeypatch):
    """Start a program in place of the region that looks like one, and ends with its lease."""
    command = [sys.executable, "-c", SERVING, "pytest_cloudbench.twin"]
    monkeypatch.setattr(launcher, "twin_command", lambda *_: command)


@pytest.mark.usefixtures("serving")
def test_a_shared_region_is_started_once_and_ends_with_the_last_who_shares_it(tmp_path):
    shared = tmp_path / "shared"
    lease = launcher.open_lease(shared)
    first, second = (launcher.share_region(shared) for _ in range(2))
    assert second.record == first.record
    assert {path.stat().st_mode & 0o077 for path in (shared, shared / "region.json")} == {0}
    for region in (first, first, second):
        region.close()
    joined = launcher.share_region(shared)
    joined.check()
    joined.close()
    launcher.end_shared_region(shared, lease)
    with pytest.raises(RegionEnded, match=f"process {first.record.pid}"):
        joined.check()


@pytest.mark.usefixtures("serving")
def test_a_shared_region_ends_when_all_that_share_it_are_killed(tmp_path):
    sharing = f"""
import sys, time
from pathlib import Path
from pytest_cloudbench import launcher
launcher.twin_command = lambda *_: {launcher.twin_command()!r}
region = launcher.share_region(Path({str(tmp_path)!r}) / "shared")
print(flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", sharing], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        lease = launcher.open_lease(tmp_path / "shared")
        process.kill()
    launcher.end_shared_region(tmp_path / "shared", lease)


def test_a_region_that_outlives_its_lease_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(launcher, "END_LIMIT_S", 0.05)
    staying = [sys.executable, "-c", "print(flush=True); input()", "pytest_cloudbench.twin"]
    with subprocess.Popen(staying, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        lease = launcher.open_lease(tmp_path)
        (tmp_path / "region.json").write_text(json.dumps({**READY, "pid": process.pid}))
        with pytest.raises(RegionUnavailable, match=f"process {process.pid}\\) has not ended"):
            launcher.end_shared_region(tmp_path, lease)
        process.communicate(b"\n")


def test_the_end_of_a_session_without_a_region_waits_for_none(tmp_path):
    launcher.end_shared_region(tmp_path, launcher.open_lease(tmp_path))


def test_a_shared_region_that_cannot_start_is_tried_once_and_leaves_no_lease(stand_in, tmp_path):
    trace = tmp_path / "starts"
    stand_in(f"open({str(trace)!r}, 'a').write('x'); print({json.dumps({'error': 'no loop devices'})!r})")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with pytest.raises(RegionUnavailable, match="no loop devices"):
            launcher.share_region(tmp_path / "shared")
    assert len(os.listdir("/proc/self/fd")) == before
    assert trace.read_text() == "x"


def test_output_before_the_ready_line_is_ignored(stand_in):
    stand_in(f"import sys; print('hello'); print({json.dumps(READY)!r}, flush=True); sys.stdin.read()")
    region = launcher.start_leased_region()
    assert region.record == RegionRecord.from_json(READY)
    region.close()
