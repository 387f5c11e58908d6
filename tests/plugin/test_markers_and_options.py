"""What is wrong with a test's markers or options is said in one sentence, before any cloud is opened."""

import pytest

# Loaded here so that the runs inside these tests do not load them anew: classes would exist twice.
import pytest_cloudbench.promises.volumes
import pytest_cloudbench.topology.markers  # noqa: F401

HEAD = "import pytest\nfrom pytest_cloudbench import gp3, io2\n"


@pytest.fixture
def no_region(monkeypatch, pytester):
    """Any attempt to open a region fails the inner run with a word the tests look for."""
    pytester.makeconftest(
        """
        import pytest
        from pytest_cloudbench import launcher

        @pytest.fixture(autouse=True, scope="session")
        def _no_region():
            def refuse(*_):
                raise RuntimeError("a region was opened")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(launcher, "start_leased_region", refuse)
                patch.setattr(launcher, "kept_region", lambda: None)
                yield
        """
    )
    return pytester


@pytest.mark.parametrize(
    ("markers", "fixtures", "sentence"),
    [
        (
            "@pytest.mark.ec2_instance('m5.large', kind='x')",
            "ec2_instance",
            "*BadMarker*ec2_instance has no argument kind=*It takes type, zone, image, user, commands*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', zon='us-east-1a')",
            "ec2_instance",
            "*BadMarker*has no argument zon=; did you mean zone=?*",
        ),
        ("@pytest.mark.ec2_instance()", "ec2_instance", "*BadMarker*ec2_instance needs type*"),
        (
            "@pytest.mark.ec2_instance(5)",
            "ec2_instance",
            "*BadMarker*must be a name such as 'c5.18xlarge', not 5*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', 'us-east-1a')",
            "ec2_instance",
            "*BadMarker*takes type by position and the rest by name*2 were given by position*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', zone=5)",
            "ec2_instance",
            "*BadMarker*zone must be a text, not 5*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', commands=5)",
            "ec2_instance",
            "*BadMarker*commands must be a list of shell lines*not 5*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', commands=['ls', 7])",
            "ec2_instance",
            "*BadMarker*commands must be a list of shell lines*not [[]'ls', 7[]]*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volume(gp3(size_gib=1), zone=5)",
            "ebs_volume",
            "*BadMarker*ebs_volume: zone must be a text, not 5*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volume('gp3')",
            "ebs_volume",
            "*BadMarker*ebs_volume: the spec must be one of gp2, gp3*not 'gp3'*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volumes(gp3(size_gib=1), count=0)",
            "ebs_volumes",
            "*BadMarker*count must be a whole number from 1 up, not 0*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volumes(gp3(size_gib=1))",
            "ebs_volumes",
            "*BadMarker*ebs_volumes needs count*",
        ),
        (
            "@pytest.mark.ebs_volume(gp3(size_gib=1))",
            "ebs_volume",
            "*BadMarker*ebs_volume needs an instance to attach to*ec2_instance*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', zone='us-east-1a')\n"
            "@pytest.mark.ebs_volume(gp3(size_gib=1), zone='us-east-1b')",
            "ebs_volume",
            "*BadMarker*wanted in us-east-1b and ec2_instance in us-east-1a*only in its own availability zone*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volume(io2(size_gib=4, iops=80_000))",
            "ebs_volume",
            "*InvalidSpec*80,000*1,000 IOPS per GiB*",
        ),
    ],
)
def test_bad_markers_are_refused_before_anything_is_opened(no_region, markers, fixtures, sentence):
    no_region.makepyfile(f"{HEAD}\n{markers}\ndef test_it({fixtures}):\n    pass\n")
    result = no_region.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*a region was opened*")


def test_a_good_marker_does_open_a_region(no_region):
    """Else the tests above could pass for the wrong reason."""
    no_region.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = no_region.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a region was opened*"])


def test_a_skipped_test_is_skipped_whatever_its_markers_say(no_region):
    no_region.makepyfile(
        f"{HEAD}\n@pytest.mark.skip\n@pytest.mark.ec2_instance(5)\ndef test_it(ec2_instance):\n    pass\n"
    )
    no_region.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(skipped=1)


def test_a_fixture_asked_for_by_request_finds_the_markers_too(pytester):
    pytester.makepyfile(
        f"""{HEAD}
@pytest.mark.ec2_instance('m5.large')
def test_it(request):
    assert request.getfixturevalue('_cloudbench_wanted').instance.type == 'm5.large'
"""
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_an_option_outside_its_choices_is_a_usage_error(pytester):
    result = pytester.runpytest_inprocess("--cloudbench-cloud=azure")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-cloud*azure*embedded*aws*"])


def test_an_ini_value_outside_its_choices_is_named(pytester):
    pytester.makeini("[pytest]\ncloudbench_cloud = azure\n")
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["*cloudbench_cloud='azure' in the ini file: use one of embedded, aws*"])


def test_the_command_line_wins_over_the_ini_file(pytester):
    pytester.makeini("[pytest]\ncloudbench_pace = full\n")
    pytester.makepyfile(
        """
        from pytest_cloudbench.settings import setting

        def test_it(pytestconfig):
            assert setting(pytestconfig, "pace") == "quick"
            assert setting(pytestconfig, "cloud") == "embedded"
        """
    )
    pytester.runpytest_inprocess("--cloudbench-pace=quick").assert_outcomes(passed=1)


def test_no_credentials_on_aws_is_one_clear_sentence(pytester, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_subprocess("--cloudbench-cloud=aws", "--cloudbench-region=us-east-1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*NoCredentials:*credentials*"])
