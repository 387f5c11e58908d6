"""Two volumes measured on the embedded region, compared by this plugin's gate."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.embedded

BODY = """
import os
import pytest
from pytest_cloudbench import gp3


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=20, iops=int(os.environ["PROVISIONED"])))
def test_it(ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=32, runtime=6, ramp_time=1)
    assert run.reaches(ebs_volume.iops, within=0.2)  # the machine may be busy: what counts is the comparison
"""


@pytest.mark.alone  # a busy machine makes its verdicts inconclusive
def test_a_slower_volume_does_not_pass_the_gate(pytester, monkeypatch):
    pytester.makepyfile(test_it=BODY)

    def run(provisioned, *options):
        monkeypatch.setenv("PROVISIONED", str(provisioned))
        quiet = ("-p", "no:cacheprovider", "-p", "no:allure_pytest", "-p", "no:benchmark")
        return pytester.run(sys.executable, "-m", "pytest", *quiet, *options, "test_it.py")

    run(6_000, "--cloudbench-evidence=kept-6000").assert_outcomes(passed=1)

    gate = ("--cloudbench-baseline=kept-6000", "--cloudbench-regression=5%")
    slower = run(4_000, "--cloudbench-evidence=kept-4000", *gate, "--junitxml=out.xml")
    slower.assert_outcomes(failed=1)
    (case,) = ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    said = case.find("failure").attrib["message"]
    assert "violated: " in said
    assert re.search(r" IOPS in 1 earlier run \(\d\d\.\d % less, 95 % interval", said)
    assert "changed: gp3 20 GiB/6,000 IOPS -> 4,000 IOPS;" in said, "the volume and nothing else"
