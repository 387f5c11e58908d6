"""The ready matrices: jobs that fio takes, with ids that tell them apart."""

import pytest

from pytest_cloudbench import FOUR_CORNERS, SQLIO, JobShape, sqlio
from pytest_cloudbench.workloads.fio.job import FioJob

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("job", [*SQLIO, *FOUR_CORNERS], ids=str)
def test_every_job_is_a_valid_fio_job(job):
    built = FioJob.of(**job, runtime=60)
    assert built.rw == job["rw"]
    assert built.outstanding() == job["iodepth"]


def test_the_sqlio_matrix_is_complete():
    assert len(SQLIO) == len({str(job) for job in SQLIO}) == 3 * 4 * 2
    assert {job["bs"] for job in SQLIO} == {"8k", "16k", "64k"}
    assert len(sqlio(block_sizes=["8k"], outstanding=[1, 2, 128])) == 12


def test_a_shape_is_changed_by_copying():
    job = JobShape("randread", "8k", 64)
    deeper = job.changed(iodepth=128, numjobs=2)
    assert str(job) == "randread-8k-64"
    assert str(deeper) == "randread-8k-128-numjobs=2"
    assert job == {"rw": "randread", "bs": "8k", "iodepth": 64}
    assert len({job, JobShape("randread", "8k", 64), deeper}) == 2


def test_its_ids_appear_in_pytest(pytester):
    pytester.makepyfile(
        """
        import pytest
        from pytest_cloudbench import FOUR_CORNERS

        @pytest.mark.parametrize("job", FOUR_CORNERS, ids=str)
        def test_corner(job):
            assert dict(**job)
        """
    )
    result = pytester.runpytest_inprocess("-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_corner?randread-4k-32?*"])
