"""Our own errors reach the user as one sentence, where his own code met them."""

import pytest

# Loaded here so that the runs inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.workloads.fio.run  # noqa: F401
from pytest_cloudbench import launcher
from pytest_cloudbench.aws.terraform import Terraform, TerraformError
from pytest_cloudbench.reports.errors_shown import users_frames

MEETS_IT = """
    def helper(fio):
        return fio("/dev/sda", rw="randread")

    def test_it(fio):
        helper(fio)
"""


@pytest.fixture
def run(pytester):
    def run(*options):
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def test_the_traceback_ends_in_the_test(pytester, run):
    pytester.makepyfile(MEETS_IT)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*helper(fio)",
            ">*return fio(*",
            "E *BadFioJob: fio's target is a volume*, not '/dev/sda'",
            "*.py:2: BadFioJob",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_cloudbench/*.py*")


def test_a_foreign_error_with_a_region_attribute_is_unchanged(pytester, run):
    pytester.makepyfile(
        """
        class NoSuchBucket(Exception):
            region = "eu-west-1"

        def test_it():
            raise NoSuchBucket("not here")
        """
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *NoSuchBucket: not here"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_frames_of_the_standard_library_are_not_the_users(tmp_path):
    with pytest.raises(TerraformError) as caught:
        Terraform(tmp_path / "missing").find("db")  # reads the file in a cached property
    met = users_frames(caught.tb)
    assert met.tb_frame.f_globals["__name__"] == __name__
    assert met.tb_next is None


def test_full_trace_shows_all_frames(pytester, run):
    pytester.makepyfile(MEETS_IT)
    run("--full-trace").stdout.fnmatch_lines(["*pytest_cloudbench/workloads/fio/*.py*"])


def test_the_cause_of_an_error_is_not_shown_beside_its_sentence(pytester, run):
    pytester.makepyfile(
        """
        from pytest_cloudbench.resources.errors import CloudError

        def test_it():
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise CloudError("could not launch m5.large") from error
        """
    )
    result = run()
    result.stdout.fnmatch_lines(["E *CloudError: could not launch m5.large"])
    result.stdout.no_fnmatch_line("*ZeroDivisionError: *")


def test_an_error_of_a_fixture_is_only_its_sentence(pytester, run, monkeypatch):
    for name in ("kept_region", "twin_command"):
        monkeypatch.setattr(launcher, name, getattr(launcher, name))  # restore what the inner conftest sets
    pytester.makeconftest(
        """
        import json
        import sys
        from pytest_cloudbench import launcher

        ANSWER = json.dumps({"error": "no loop devices"})
        launcher.kept_region = lambda: None
        launcher.twin_command = lambda *_: [sys.executable, "-c", f"print({ANSWER!r})"]
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ec2_instance("m5.large")
        def test_it(ec2_instance):
            pass
        """
    )
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_it*",
            "RegionUnavailable: the embedded region cannot start: no loop devices",
        ]
    )
    result.stdout.no_fnmatch_line("*fixtures/fixtures.py*")


def test_other_errors_keep_their_traceback(pytester, run):
    pytester.makepyfile("import json\n\ndef test_it():\n    json.loads('{')\n")
    run().stdout.fnmatch_lines(["*json/decoder.py*"])


def test_frames_of_other_plugins_are_not_the_users(pytester, run, tmp_path):
    """Such as those of pytest-asyncio, which wraps the set-up of fixtures."""
    installed = tmp_path / "site-packages" / "other_plugin.py"
    installed.parent.mkdir()
    installed.write_text(
        """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    return (yield)
"""
    )
    pytester.syspathinsert(installed.parent)
    pytester.makepyfile(
        test_a="""
        import pytest

        @pytest.mark.ec2_instance("m5.large", zon="us-east-1a")
        def test_it(request):
            request.getfixturevalue("_cloudbench_requested")
        """
    )
    lines = run("-p", "other_plugin").outlines
    assert any(line.startswith("E ") and "did you mean zone=?" in line for line in lines)
    assert "test_a.py:5: BadMarker" in lines
    assert not any("other_plugin.py" in line or "fixtures.py" in line for line in lines)
    assert any("other_plugin.py" in line for line in run("-p", "other_plugin", "--full-trace").outlines)


def test_an_error_about_a_unit_is_shown_at_the_line_of_the_test(pytester, run):
    pytester.makepyfile(
        test_a="""
        from pytest_cloudbench import parse_rate

        def test_it():
            parse_rate("9000 IOP")
        """
    )
    lines = run().outlines
    assert any(line.startswith("E ") and "unknown unit 'IOP'" in line for line in lines)
    assert "test_a.py:4: ValueError" in lines
    assert not any("quantities.py" in line for line in lines)


def test_an_error_in_the_set_up_of_a_fixture_is_one_sentence_beside_other_plugins(pytester, run):
    pytest.importorskip("pytest_asyncio")
    pytester.makeini("[pytest]\nasyncio_mode = auto\n")
    pytester.makepyfile(
        test_a="""
        async def test_it(ebs_volume):
            pass
        """
    )
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["BadMarker: ec2_instance needs @pytest.mark.ec2_instance*"])
    result.stdout.no_fnmatch_line("*pytest_cloudbench/*")


def test_a_mistake_of_the_package_itself_keeps_its_traceback(pytester, run):
    pytester.makepyfile(
        """
        from pytest_cloudbench.limits.volumes import volume_ceilings

        def test_it():
            volume_ceilings([("vol-0abc", None)])
        """
    )
    run().stdout.fnmatch_lines(["*limits/volumes.py*"])
