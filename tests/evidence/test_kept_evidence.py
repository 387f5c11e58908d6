"""Evidence of earlier versions verifies and replays for ever, wherever code has moved since."""

import shutil
from pathlib import Path

import pytest

from pytest_cloudbench.evidence.verify import verify

KEPT = sorted((Path(__file__).parent / "kept").glob("*.tar.xz"))


@pytest.fixture(params=KEPT, ids=lambda path: path.name.removesuffix(".tar.xz"))
def kept(request, pytester):
    """Unpack the evidence that a version recorded, and restore its test files. Return the folder."""
    shutil.unpack_archive(request.param, pytester.path)
    (folder,) = pytester.path.glob("evidence")
    for source in (folder / "sources" / "main").glob("*.source"):
        (pytester.path / source.stem).write_bytes(source.read_bytes())
    return folder


def test_it_verifies(kept):
    found = verify(kept)
    assert found.exit_code == 0, str(found)


def test_every_measurement_replays_with_the_same_verdicts(kept, pytester):
    result = pytester.runpytest_inprocess(f"--cloudbench-replay={kept}", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=12)
    result.stdout.no_fnmatch_line("*judged differently*")
    result.stdout.fnmatch_lines(["*cloudbench verdicts*"])
