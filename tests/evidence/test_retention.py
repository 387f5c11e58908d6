"""`cloudbench evidence prune`: only folders that a run wrote are removed, the oldest first."""

import json
import os
import shutil
import time

import mutated_evidence
import pytest

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.folder import DEFAULT_FOLDER, EvidenceError, EvidenceFolder
from pytest_cloudbench.evidence.retention import prune
from pytest_cloudbench.evidence.verify import verify


@pytest.fixture
def runs(tmp_path):
    """A folder with four finished runs, the name of which is their order of age."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(4):
        made = mutated_evidence.small_evidence(tmp_path / f"unpacked-{number}")
        journal = made / "journals" / "main.jsonl"
        entries = [json.loads(line) for line in journal.read_text().splitlines()]
        entries[0]["at"] = f"2026-01-0{9 - number}T00:00:00.000+00:00"
        mutated_evidence.write_chain(journal, entries)
        (made / "MANIFEST.sha256").write_text("")
        made.rename(folder / f"run-{9 - number}")
    return folder


def names(paths):
    return [path.name for path in paths]


def test_the_newest_stay(runs, capsys):
    assert names(prune(runs, keep=3, dry=True).removed) == ["run-6"]
    assert main(["evidence", "prune", str(runs), "--keep", "2"]) == 0
    assert capsys.readouterr().out.startswith("removed 2 of 4 runs\n")
    assert sorted(names(runs.iterdir())) == ["run-8", "run-9"]
    assert not prune(runs, keep=2).removed
    assert len(prune(runs, keep=0).removed) == 2
    assert runs.is_dir()


@pytest.mark.fault("evidence", "prune meets what is not a finished run", leak=True)
def test_nothing_else_is_removed(runs, tmp_path):
    (runs / ".gitignore").write_text("*\n")
    (runs / "notes.txt").write_text("mine")
    (runs / "mine").mkdir()
    (runs / "mine" / "journals").mkdir()
    (runs / "elsewhere").symlink_to(tmp_path / "other")
    shutil.copytree(runs / "run-9", tmp_path / "other")
    (runs / "run-6" / "thesis.pdf").write_text("mine")
    (runs / "run-7" / "MANIFEST.sha256").unlink()  # it has no end, and wrote just now
    shutil.move(runs / "run-8" / "tests", tmp_path / "tests")
    (runs / "run-8" / "tests").symlink_to(tmp_path / "tests")
    pruned = prune(runs, keep=0)
    assert names(pruned.removed) == ["run-9"]
    assert {path.name: why.split(",")[0] for path, why in pruned.left_alone.items()} == {
        "elsewhere": "a link",
        "mine": "not the evidence of a run",
        "notes.txt": "not a folder",
        "run-6": "has thesis.pdf",
        "run-7": "its run has not ended",
        "run-8": "tests is a link",
    }
    assert (tmp_path / "other" / "journals").is_dir()
    assert any((tmp_path / "tests").iterdir())
    assert (runs / ".gitignore").exists()


def test_a_run_that_goes_on_stays(runs):
    folder = EvidenceFolder(runs / "run-6")
    folder.lock()
    assert names(prune(runs, keep=3).left_alone) == ["run-6"]
    folder.unlock()
    assert names(prune(runs, keep=3).removed) == ["run-6"]


def test_a_run_without_an_end_stays_for_an_hour_after_its_newest_file(runs):
    run, hours_ago = runs / "run-6", time.time() - 7200
    (run / "MANIFEST.sha256").unlink()
    for path in (run, *run.rglob("*")):
        os.utime(path, (hours_ago, hours_ago))
    assert names(prune(runs, keep=3, dry=True).removed) == ["run-6"]
    written = next((run / "tests").rglob("measurement-1.json"))
    os.utime(written)
    assert "within the last hour" in prune(runs, keep=3, dry=True).left_alone[run]


@pytest.mark.parametrize(
    ("name", "text", "stays"),
    [("mine", "*\n", True), (DEFAULT_FOLDER, "*.log\n", True), (DEFAULT_FOLDER, None, False)],
    ids=["another folder", "the user's own", "ours"],
)
def test_a_discarded_run_removes_only_a_gitignore_of_its_own(tmp_path, name, text, stays):
    above = tmp_path / name
    if text is not None:
        above.mkdir()
        (above / ".gitignore").write_text(text)
    folder = EvidenceFolder(above / "run")
    folder.prepare()
    folder.discard()
    assert not folder.root.exists()
    assert (above / ".gitignore").exists() is stays


@pytest.mark.parametrize("keep", [-1, 3])
def test_a_folder_that_cannot_be_pruned_is_refused(runs, keep, tmp_path, capsys):
    (tmp_path / "link").symlink_to(runs)
    for folder in (runs / "run-9", tmp_path / "none", tmp_path / "link"):
        with pytest.raises(EvidenceError):
            prune(folder, keep=keep)
    assert main(["evidence", "prune", str(runs / "run-9"), "--keep", "1"]) == 3
    assert "name the folder above it" in capsys.readouterr().err


def test_a_disk_that_is_nearly_full_is_found_before_the_run(tmp_path, monkeypatch):
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100, 90, 10 << 20))
    with pytest.raises(EvidenceError, match="10 MiB free"):
        EvidenceFolder(tmp_path / "evidence").prepare()


def test_a_session_that_begins_no_test_leaves_nothing(session, pytester):
    result = session(
        """
import pytest

@pytest.fixture
def _cloudbench_cloud():
    raise OSError("no region")

def test_it(ec2_instance):
    pass
""",
        "--cloudbench-evidence=runs/{run}",
    )
    assert result.parseoutcomes().get("errors") == 1
    assert not (pytester.path / "runs").exists()
    result.stdout.no_fnmatch_line("*evidence of 0 tests*")


def test_a_new_folder_of_runs_is_not_committed(session, pytester):
    body = 'def test_it(volume, fio):\n    fio(volume, rw="randread", runtime=300)\n'
    session(body).assert_outcomes(passed=1)
    runs = pytester.path / "cloudbench-evidence"
    assert (runs / ".gitignore").read_text().endswith("*\n")
    (run,) = runs.glob("2*")
    assert verify(run).exit_code == 0
    assert not (pytester.path / ".gitignore").exists()
    assert not prune(runs, keep=1).removed
