"""Bad markers and options: one sentence, before any cloud is opened."""

import pytest

# Loaded here so that the runs inside these tests do not load them anew: classes would exist twice.
import pytest_cloudbench.limits.volumes
import pytest_cloudbench.resources.markers  # noqa: F401
from pytest_cloudbench import launcher
from pytest_cloudbench.options import parse_ssh_from

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
            "*BadMarker*ec2_instance has no argument kind=: it takes type, zone, image, user, commands*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', zon='us-east-1a')",
            "ec2_instance",
            "*BadMarker*has no argument zon=: did you mean zone=?*",
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
            "@pytest.mark.ec2_pair('m5.large')\n@pytest.mark.ebs_volume(gp3(size_gib=1))",
            "ebs_volume",
            "*BadMarker*ebs_volume needs an instance*for one of a pair, ec2.create_volume(spec, ec2_pair.client)*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large', zone='us-east-1a')\n"
            "@pytest.mark.ebs_volume(gp3(size_gib=1), zone='us-east-1b')",
            "ebs_volume",
            "*BadMarker*is in us-east-1b and ec2_instance in us-east-1a*only in its own availability zone*",
        ),
        (
            "@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volume(io2(size_gib=4, iops=80_000))",
            "ebs_volume",
            "*InvalidSpec*80,000*1,000 IOPS per GiB*",
        ),
        ("@pytest.mark.ec2_pair()", "ec2_pair", "*BadMarker*ec2_pair needs client_type*"),
        (
            "@pytest.mark.ec2_pair('m5.large', servertype='m5.large')",
            "ec2_pair",
            "*BadMarker*ec2_pair has no argument servertype=: did you mean server_type=?",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', 'm5.large', 'cluster')",
            "ec2_pair",
            "*BadMarker*takes client_type and server_type by position and the rest by name (placement, zones, *"
            "3 were given by position*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', server_type=5)",
            "ec2_pair",
            "*BadMarker*ec2_pair: server_type must be a name such as 'c5.18xlarge', not 5*",
        ),
        (
            "@pytest.mark.ec2_pair(None)",
            "ec2_pair",
            "*BadMarker*ec2_pair: client_type must be a name such as 'c5.18xlarge', not None*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', placement='spread')",
            "ec2_pair",
            "*BadMarker*ec2_pair: placement must be 'cluster'*or None for none; not 'spread'*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', placement=True)",
            "ec2_pair",
            "*BadMarker*ec2_pair: placement must be 'cluster'*or None for none; not True*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', zones='us-east-1a')",
            "ec2_pair",
            "*BadMarker*zones must be a pair of availability zones*not 'us-east-1a'*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', zones=('us-east-1a',))",
            "ec2_pair",
            "*BadMarker*zones must be a pair of availability zones*such as ('us-east-1a', 'us-east-1b')*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', zones=['us-east-1a', None])",
            "ec2_pair",
            "*BadMarker*zones must be a pair of availability zones*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', placement='cluster', zones=('us-east-1a', 'us-east-1b'))",
            "ec2_pair",
            "*BadMarker*a cluster placement group lies in one availability zone*us-east-1a and us-east-1b*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', image=5)",
            "ec2_pair",
            "*BadMarker*ec2_pair: image must be a text, not 5*",
        ),
        (
            "@pytest.mark.ec2_pair('m5.large', commands=5)",
            "ec2_pair",
            "*BadMarker*ec2_pair: commands must be a list of shell lines*not 5*",
        ),
    ],
)
def test_bad_markers_are_refused_before_anything_is_opened(no_region, markers, fixtures, sentence):
    no_region.makepyfile(f"{HEAD}\n{markers}\ndef test_it({fixtures}):\n    pass\n")
    result = no_region.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*a region was opened*")


def test_a_valid_marker_opens_a_region(no_region):
    """Else the tests above could pass for the wrong reason."""
    no_region.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = no_region.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a region was opened*"])


def test_a_skipped_test_is_skipped_even_with_bad_markers(no_region):
    no_region.makepyfile(
        f"{HEAD}\n@pytest.mark.skip\n@pytest.mark.ec2_instance(5)\ndef test_it(ec2_instance):\n    pass\n"
    )
    no_region.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(skipped=1)


def test_a_fixture_requested_at_runtime_reads_the_markers(pytester):
    pytester.makepyfile(
        f"""{HEAD}
@pytest.mark.ec2_instance('m5.large')
def test_it(request):
    assert request.getfixturevalue('_cloudbench_requested').instance.type == 'm5.large'
"""
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_one_type_of_a_pair_is_for_both_ends(pytester):
    pytester.makepyfile(
        f"""{HEAD}
@pytest.mark.ec2_pair('m5.large', zones=['us-east-1a', 'us-east-1a'], placement='cluster', commands='true')
def test_alike(request):
    pair = request.getfixturevalue('_cloudbench_requested').pair
    assert (pair.client.type, pair.server.type, pair.cluster) == ('m5.large', 'm5.large', True)
    for end in (pair.client, pair.server):
        assert (end.zone, end.commands) == ('us-east-1a', ('true',))

@pytest.mark.ec2_pair('t2.medium', 'm5.2xlarge')
def test_unlike(request):
    pair = request.getfixturevalue('_cloudbench_requested').pair
    assert (pair.client.type, pair.server.type, pair.cluster) == ('t2.medium', 'm5.2xlarge', False)
    assert (pair.client.zone, pair.server.zone) == (None, None)
"""
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_pair_fixture_launches_what_its_marker_describes_and_needs_one(pytester):
    pytester.makepyfile(
        f"""{HEAD}
class Factory:
    def launch_pair(self, wanted):
        return wanted

@pytest.fixture
def ec2():
    return Factory()

@pytest.mark.ec2_pair('t2.medium', 'm5.2xlarge')
def test_marked(ec2_pair):
    assert (ec2_pair.client.type, ec2_pair.server.type) == ('t2.medium', 'm5.2xlarge')

def test_unmarked(ec2_pair):
    pass
"""
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ec2_pair needs @pytest.mark.ec2_pair(client_type), such as 'm5.2xlarge'"])


@pytest.mark.parametrize("value", ["0", "0.5", "-60", "3601", "sixty", "nan", "inf", "60x", ""])
def test_a_time_factor_out_of_bounds_is_a_usage_error(pytester, value):
    pytester.makepyfile("def test_it():\n    pass\n")
    result = pytester.runpytest_inprocess(f"--cloudbench-twin-time={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cloudbench-twin-time: invalid time factor '{value}': *1 *to 3,600*"])


def test_a_time_factor_in_the_ini_file_is_checked_too(pytester):
    pytester.makeini("[pytest]\ncloudbench_twin_time = 0\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cloudbench_twin_time in the ini file: invalid time factor '0'*"])


def test_time_is_not_compressed_on_aws(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    result = pytester.runpytest_inprocess("--cloudbench-cloud=aws", "--cloudbench-twin-time=60")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*time cannot be compressed 60 times on AWS*leave out --cloudbench-twin-time*"]
    )
    pytester.runpytest_inprocess("--cloudbench-cloud=aws", "--cloudbench-twin-time=1").assert_outcomes(
        passed=1
    )


@pytest.mark.parametrize(
    ("options", "arguments"),
    [([], []), (["--cloudbench-twin-time=1.0"], []), (["--cloudbench-twin-time=60"], ["--time", "60"])],
)
def test_the_region_is_started_with_the_requested_factor(pytester, monkeypatch, options, arguments):
    monkeypatch.setattr(launcher, "kept_region", lambda: None)

    def start(given):
        raise launcher.RegionUnavailable(f"started with {given}")

    monkeypatch.setattr(launcher, "start_leased_region", start)
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    assert any(line.endswith(f"RegionUnavailable: started with {arguments}") for line in result.outlines)


def test_a_kept_region_with_another_factor_is_refused(pytester, monkeypatch):
    record = launcher.RegionRecord("http://127.0.0.1:1", "us-east-1", "A", "S", "198.18.0.1/32", 1, 3, 60.0)
    monkeypatch.setattr(launcher, "kept_region", lambda: record)
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "RegionUnavailable: the region that is kept (slot 3) runs with a factor of time of 60, not 1: use it as "
            "it is (pytest --cloudbench-twin-time=60), or restart it: `cloudbench twin down 3; cloudbench twin up`"
        ]
    )


@pytest.mark.parametrize(
    ("options", "arguments"),
    [(["--cloudbench-twin-latency=ebs"], []), (["--cloudbench-twin-latency=none"], ["--latency", "none"])],
)
def test_the_region_is_started_with_the_requested_latency(pytester, monkeypatch, options, arguments):
    monkeypatch.setattr(launcher, "kept_region", lambda: None)

    def start(given):
        raise launcher.RegionUnavailable(f"started with {given}")

    monkeypatch.setattr(launcher, "start_leased_region", start)
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    assert any(line.endswith(f"RegionUnavailable: started with {arguments}") for line in result.outlines)


def test_an_unknown_latency_is_a_usage_error_before_anything_is_collected(pytester):
    result = pytester.runpytest_inprocess("--cloudbench-twin-latency=aws")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-twin-latency*aws*ebs*none*"])
    pytester.makeini("[pytest]\ncloudbench_twin_latency = aws\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cloudbench_twin_latency='aws' in the ini file: use one of ebs, none*"])


def test_a_latency_mode_is_refused_on_aws(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    result = pytester.runpytest_inprocess("--cloudbench-cloud=aws", "--cloudbench-twin-latency=none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot be 'none' on AWS*leave out --cloudbench-twin-latency*"])
    pytester.runpytest_inprocess("--cloudbench-cloud=aws").assert_outcomes(passed=1)


def test_an_option_outside_its_choices_is_a_usage_error(pytester):
    result = pytester.runpytest_inprocess("--cloudbench-cloud=azure")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cloudbench-cloud*azure*embedded*aws*"])


def test_an_ini_value_outside_its_choices_is_a_usage_error(pytester):
    pytester.makeini("[pytest]\ncloudbench_cloud = azure\n")
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess()
    result.stderr.fnmatch_lines(["*cloudbench_cloud in the ini file*'azure'*embedded, aws*"])


def test_the_command_line_wins_over_the_ini_file(pytester):
    pytester.makeini("[pytest]\ncloudbench_pace = full\n")
    pytester.makepyfile(
        """
        from pytest_cloudbench.options import setting

        def test_it(pytestconfig):
            assert setting(pytestconfig, "pace") == "quick"
            assert setting(pytestconfig, "cloud") == "embedded"
        """
    )
    pytester.runpytest_inprocess("--cloudbench-pace=quick").assert_outcomes(passed=1)


def test_missing_credentials_on_aws_are_one_clear_sentence(pytester, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    pytester.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\ndef test_it(ec2_instance):\n    pass\n"
    )
    result = pytester.runpytest_inprocess("--cloudbench-cloud=aws", "--cloudbench-region=us-east-1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*NoCredentials:*credentials*"])


@pytest.mark.parametrize(
    ("options", "outcomes"),
    [
        ((), {"passed": 2, "deselected": 2}),
        (("--cloudbench-pace=quick",), {"passed": 2, "deselected": 2}),
        (("--cloudbench-pace=full",), {"passed": 4}),
        (("--cloudbench-cloud=aws",), {"passed": 4}),
    ],
)
def test_quick_pace_deselects_tests_marked_full_pace(pytester, options, outcomes):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.full_pace
        def test_long():
            pass

        @pytest.mark.parametrize("size", ["small", pytest.param("large", marks=pytest.mark.full_pace)])
        def test_sizes(size):
            pass

        def test_short():
            pass
        """
    )
    pytester.runpytest(*options).assert_outcomes(**outcomes)


@pytest.mark.parametrize("everything", ["0.0.0.0/0", "::/0"])
def test_the_whole_internet_needs_a_word(everything):
    assert parse_ssh_from("anywhere") == "0.0.0.0/0"
    with pytest.raises(ValueError, match=r"whole internet.*anywhere"):
        parse_ssh_from(everything)


@pytest.mark.parametrize("network", ["203.0.113.7", "10.0.0.0/16", "2001:db8::/32"])
def test_a_network_for_ssh_is_taken_as_it_is(network):
    assert parse_ssh_from(network) == network


def test_a_session_on_an_existing_instance_needs_its_id(no_region):
    no_region.makepyfile("def test_it():\n    pass\n")
    result = no_region.runpytest_inprocess("--cloudbench-instance=i-12")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--cloudbench-instance: 'i-12' is not an id of an instance: use one such as i-*"]
    )


def test_an_existing_instance_gets_no_new_volume(no_region):
    no_region.makeini("[pytest]\ncloudbench_instance = i-0123456789abcdef0\n")
    no_region.makepyfile(
        f"{HEAD}\n@pytest.mark.ec2_instance('m5.large')\n@pytest.mark.ebs_volume(gp3(size_gib=1))\n"
        "def test_it(ebs_volume):\n    pass\n"
    )
    result = no_region.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*BadMarker*would be attached to the existing instance i-0123456789abcdef0*"]
    )
