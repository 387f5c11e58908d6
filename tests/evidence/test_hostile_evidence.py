"""Evidence that somebody changed is refused with a clear finding: nothing crashes, hangs or eats memory."""

import os
import shutil

import mutated_evidence
import pytest

from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from
from pytest_cloudbench.evidence.verify import DIFFERENT, verify

SEEDS = 60


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return mutated_evidence.small_evidence(tmp_path_factory.mktemp("original"))


@pytest.fixture
def evidence(original, tmp_path):
    return shutil.copytree(original, tmp_path / "evidence")


def test_the_original_can_be_read(original):
    found = Evidence(str(original))
    assert [measurement_from(test.measurements()[0], test.read).iops > 0 for test in found.tests] == [True]


@pytest.mark.fault("evidence", "a changed folder is verified and read")
def test_changed_folders_are_refused_without_a_crash(original, tmp_path, record_property):
    record_property("tried", SEEDS)
    for seed in range(SEEDS):
        what, crash, seconds = mutated_evidence.tried(original, tmp_path, seed)
        assert crash is None, f"seed {seed}, {what}: {crash}"
        assert seconds < 30, f"seed {seed}, {what}"


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def huge(path):
    with path.open("wb") as stream:
        stream.truncate(1 << 43)


@pytest.mark.fault("evidence", "a pipe, a device or a huge file in place of a file")
@pytest.mark.parametrize("put", [fifo, endless, huge])
@pytest.mark.parametrize(
    "name", ["journals/main.jsonl", "tests/*/1/journal.jsonl", "tests/*/1/measurement-1.json"]
)
def test_only_regular_files_of_bounded_size_are_read(evidence, put, name):
    path = next(evidence.glob(name))
    put(path)
    found = verify(evidence)
    assert found.exit_code == DIFFERENT
    assert [line for line in found.differences if str(path.relative_to(evidence)) in line]
    with pytest.raises(EvidenceError, match=r"regular file|at most|altered|is a link|cannot be read"):
        read(evidence)


def read(evidence):
    for test in Evidence(evidence).tests:
        test.measurements()


@pytest.mark.fault("evidence", "a manifest that is a pipe")
def test_a_manifest_that_is_a_pipe_is_refused(evidence):
    os.mkfifo(evidence / "MANIFEST.sha256")
    assert verify(evidence).exit_code == DIFFERENT


@pytest.mark.fault("evidence", "options that are not options")
def test_a_replay_of_damaged_options_ends_with_a_sentence(evidence, pytester):
    main = evidence / "journals" / "main.jsonl"
    entries = [mutated_evidence.json.loads(line) for line in main.read_text().splitlines()]
    entries[0]["options"] = [1, 2]
    mutated_evidence.write_chain(main, entries)
    pytester.makepyfile("def test_it(fio):\n    pass\n")
    result = pytester.runpytest_inprocess(f"--cloudbench-replay={evidence}", "-p", "no:cacheprovider")
    result.stderr.fnmatch_lines(["*ERROR: the journals in * are damaged (line 1 has no valid 'options'*"])
    assert "INTERNALERROR" not in str(result.stdout) + str(result.stderr)
