"""The facts of a session in its reports."""

from types import SimpleNamespace

import pytest

from pytest_cloudbench.reports.tested_on import of_instance


def instance(**changes):
    facts = {"machine_limits": None, "time_compression": 1.0, "modelled_latency": None, **changes}
    launched = SimpleNamespace(image=SimpleNamespace(name="al2023", id="ami-1"), **facts)
    return SimpleNamespace(launched=launched, zone="us-east-1a", type="m5.large")


def test_aws_has_no_facts_about_time_and_latency():
    facts = of_instance(instance(), SimpleNamespace(region="us-east-1"))
    assert not {"time", "storage.latency"} & set(facts)


@pytest.mark.parametrize(("mode", "said"), [("ebs", "modelled"), ("none", "not modelled")])
def test_a_region_reports_whether_latency_is_modelled(mode, said):
    facts = of_instance(instance(modelled_latency=mode, time_compression=60.0), SimpleNamespace(region=None))
    assert facts["storage.latency"] == [said]
    assert facts["time"] == ["compressed 60 times"]
