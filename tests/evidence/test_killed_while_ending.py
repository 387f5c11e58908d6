"""A run that is killed while it ends leaves readable and verifiable evidence, at any moment."""

import shutil
import signal
import subprocess
import sys

import pytest
import recorded_runs

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.journal import Journal
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from

MANIFEST, SIGNATURE = "MANIFEST.sha256", "MANIFEST.sha256.sig"
PASSES = 'def test_it(volume, fio):\n    assert fio(volume, rw="randread").reaches("3,000 IOPS")\n'
KILLS = """

import os
import pathlib
import signal
import subprocess


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    from pytest_cloudbench.evidence import finish
    from pytest_cloudbench.evidence.journal import Journal

    places = {
        "sums": (finish, "_sums"),
        "manifest": (finish, "manifest_of"),
        "sign": (finish, "signature_of"),
        "put": (os, "fsync"),
        "end": (Journal, "add_prepared"),
        "synced": (Journal, "sync"),
        "name": (pathlib.Path, "rename"),
    }
    where, when, time = os.environ["KILLED_AT"].split()
    owner, name = places[where]
    real, calls = getattr(owner, name), []

    def kills(*args, **more):
        calls.append(1)
        if len(calls) == int(time) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **more)
        if len(calls) == int(time) and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, kills)
"""
SIGNED = ["put before 1", "put after 1", "put after 2", "end before 1", "end after 1", "name after 1"]
"""Moments of the kill in a run that signs; the signature is written and renamed before the manifest."""


@pytest.fixture
def killed(pytester, monkeypatch):
    """Run a session that is killed at a place. Return its evidence."""

    def killed(place, *options):
        pytester.makeconftest(recorded_runs.STANDS_IN + KILLS)
        pytester.makepyfile(test_it=PASSES)
        monkeypatch.setenv("KILLED_AT", place)
        quiet = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:allure_pytest")
        command = [sys.executable, "-m", "pytest", *quiet, "--cloudbench-evidence=kept"]
        ended = subprocess.run(
            [*command, *options, "test_it.py"], cwd=pytester.path, stdout=subprocess.DEVNULL, check=False
        )
        assert ended.returncode == -signal.SIGKILL
        return pytester.path / "kept"

    return killed


@pytest.fixture
def key(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    return tmp_path / "key"


def check(folder, capsys):
    """Check that it is unfinished and has all measurements."""
    code = main(["verify", str(folder)])
    said = capsys.readouterr().out
    assert code == 2, said
    assert "unfinished" in said
    evidence = Evidence(folder)
    assert not evidence.finished
    (test,) = evidence.tests
    (workload,) = test.of_kind("workload")
    assert measurement_from(test.measurement(workload["file"]), test.read) == recorded_runs.measured()
    return said


@pytest.mark.fault("evidence", "a run is killed while it ends")
@pytest.mark.parametrize(
    "place",
    ["sums before 1", "sums after 1", "manifest before 1", "put before 1", "put after 1", "end before 1"],
)
def test_before_the_last_entry(killed, capsys, place):
    folder = killed(place)
    assert not (folder / MANIFEST).exists()
    assert "complete" not in check(folder, capsys)


@pytest.mark.fault("evidence", "a run is killed while it ends")
@pytest.mark.parametrize("place", ["end after 1", "synced after 2", "name before 1"])
def test_between_the_last_entry_and_the_manifest_s_name(killed, capsys, place):
    folder = killed(place)
    assert not (folder / MANIFEST).exists()
    said = check(folder, capsys)
    assert f"{MANIFEST}.partial: complete" in said


@pytest.mark.fault("evidence", "a run is killed while it ends")
@pytest.mark.parametrize("place", ["sign before 1", "sign after 1", *SIGNED])
def test_while_it_is_signed(killed, key, capsys, place):
    folder = killed(place, f"--cloudbench-sign={key}")
    check(folder, capsys)
    if place in SIGNED[-2:]:
        assert main(["verify", str(folder), "--signer", f"{key}.pub"]) == 2
        assert f"a key of {key}.pub" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["name after 1", "end after 1"])
def test_changes_of_a_killed_run_are_detected(killed, key, capsys, place):
    folder = killed(place, f"--cloudbench-sign={key}")
    signature = folder / (SIGNATURE if place == "name after 1" else f"{SIGNATURE}.partial")
    kept = signature.read_bytes()
    signature.unlink()
    assert main(["verify", str(folder)]) == 1
    assert "missing: the run was signed by SHA256:" in capsys.readouterr().out
    signature.write_bytes(kept)
    manifest = folder / f"{MANIFEST}.partial"
    kept = manifest.read_bytes()
    manifest.unlink()
    assert main(["verify", str(folder)]) == 1
    assert f"{MANIFEST}: missing" in capsys.readouterr().out
    manifest.write_bytes(b"".join(kept.splitlines(keepends=True)[1:]))
    assert main(["verify", str(folder)]) == 1
    assert f"{signature.name}: does not fit" in capsys.readouterr().out
    manifest.write_bytes(kept)
    (folder / "tests" / "more.json.partial").write_text("{}")
    assert main(["verify", str(folder)]) == 1
    assert "tests/more.json.partial: added: the run wrote no such file" in capsys.readouterr().out


def test_a_finished_run_ignores_a_partial_manifest(recorded, capsys):
    manifest = recorded / MANIFEST
    (recorded / f"{MANIFEST}.partial").write_text("")
    assert main(["verify", str(recorded)]) == 1, "beside a manifest it is an added file"
    assert f"{MANIFEST}.partial: added" in capsys.readouterr().out
    manifest.unlink()
    assert main(["verify", str(recorded)]) == 1
    assert f"{MANIFEST}.partial, line 1, is not a sum and path" in capsys.readouterr().out


def test_a_prepared_line_is_refused_after_another_entry(tmp_path):
    journal = Journal(tmp_path / "main.jsonl")
    line = journal.prepared("end", {"tests": 1})
    journal.add("close", {})
    with pytest.raises(ValueError, match="newer entry"):
        journal.add_prepared(line)
    assert journal.add_prepared(journal.prepared("end", {"tests": 1})) == 2
