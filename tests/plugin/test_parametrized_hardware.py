"""Hardware by parameters: what the markers' fixtures get, and the ids by which -k selects."""

import pytest

from pytest_cloudbench import VolumeSpec, gp3, io2
from pytest_cloudbench.fixtures.parametrized import HARDWARE, MARKERS
from pytest_cloudbench.limits.volumes import st1
from pytest_cloudbench.plugin import MARKERS as REGISTERED

CONFTEST = """
import pytest

@pytest.fixture
def ec2():
    pass

@pytest.fixture
def ec2_instance(ec2, _cloudbench_requested):
    return _cloudbench_requested.instance

@pytest.fixture
def ec2_pair(ec2, _cloudbench_requested):
    return _cloudbench_requested.pair

@pytest.fixture
def ebs_volume(ec2, _cloudbench_requested):
    return _cloudbench_requested.volume

@pytest.fixture
def ebs_volumes(ec2, _cloudbench_requested):
    return _cloudbench_requested.volumes
"""
"""Fixtures that return what is requested, instead of creating it."""


def test_parameters_replace_the_type_and_the_spec_and_keep_the_rest_of_the_marker(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import pytest
        from pytest_cloudbench import gp3, io2

        @pytest.mark.ec2_instance("c5.18xlarge", zone="us-east-1a")
        @pytest.mark.parametrize("ec2_instance", ["m5.large", {"type": "m5.xlarge", "user": "me"}], indirect=True)
        @pytest.mark.parametrize("ebs_volume", [gp3(size_gib=10), io2(size_gib=100, iops=5000)], indirect=True)
        def test_both(ec2_instance, ebs_volume, request):
            asked = request.node.callspec.params["ec2_instance"]
            assert ec2_instance.type == (asked if isinstance(asked, str) else asked["type"])
            assert ec2_instance.zone == "us-east-1a"
            assert ec2_instance.user == (None if isinstance(asked, str) else "me")
            assert ebs_volume.spec == request.node.callspec.params["ebs_volume"]

        @pytest.mark.parametrize("ec2_pair", ["m5.large", ("m5.large", "m5.xlarge")], indirect=["ec2_pair"])
        def test_pair(ec2_pair, request):
            asked = request.node.callspec.params["ec2_pair"]
            types = (asked, asked) if isinstance(asked, str) else asked
            assert (ec2_pair.client.type, ec2_pair.server.type) == types

        @pytest.mark.ec2_instance("m5.large")
        @pytest.mark.ebs_volumes(gp3(size_gib=1), count=3)
        @pytest.mark.parametrize("ebs_volumes", [io2(size_gib=4, iops=100), {"count": 2}], indirect=True)
        def test_volumes(ec2_instance, ebs_volumes, request):
            replaced = not isinstance(request.node.callspec.params["ebs_volumes"], dict)
            assert (ebs_volumes.spec, ebs_volumes.count) == (
                (io2(size_gib=4, iops=100), 3) if replaced else (gp3(size_gib=1), 2)
            )
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=8)
    chosen = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "io2-100GiB-5000iops")
    chosen.assert_outcomes(passed=2, deselected=6)


@pytest.mark.parametrize(
    ("spec", "test_id"),
    [
        (io2(size_gib=100, iops=5_000), "io2-100GiB-5000iops"),
        (gp3(size_gib=100), "gp3-100GiB"),
        (gp3(size_gib=100, iops=6_000, throughput_mib=250), "gp3-100GiB-6000iops-250MiBps"),
        (st1(size_gib=500), "st1-500GiB"),
        (
            VolumeSpec.of("io1", 10, 100, io_unit="16k", first_touch=0.5),
            "io1-10GiB-100iops-16KiBunit-touch50",
        ),
    ],
    ids=str,
)
def test_the_id_of_a_spec_tells_it_from_others(spec, test_id):
    assert spec.test_id == test_id


def test_quantities_have_ids_without_spaces(pytester):
    pytester.makepyfile(
        """
        import pytest
        from pytest_cloudbench import Iops, Throughput

        @pytest.mark.parametrize("rate", [Iops(80_000), Throughput.from_mib(2_264.98)])
        def test_it(rate):
            pass
        """
    )
    lines = pytester.runpytest_inprocess("--collect-only", "-q").outlines
    assert [line.partition("[")[2] for line in lines if "[" in line] == ["80000IOPS]", "2264.98MiBps]"]


def test_the_markers_whose_names_are_compared_are_those_that_are_registered():
    assert set(MARKERS) == {line.partition("(")[0].partition(":")[0] for line in REGISTERED}
    assert set(HARDWARE) < set(MARKERS)


def test_a_registered_marker_with_a_similar_name_is_the_users_own(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    full_space: needs a whole disk\n")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.full_space
        @pytest.mark.ec2_instance("m5.large")
        def test_it(ec2_instance):
            pass
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
