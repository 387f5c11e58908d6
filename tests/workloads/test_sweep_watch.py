"""The reports of a running step, from fio's totals."""

import json

from pytest_cloudbench.workloads.sweep.plan import StepTimes
from pytest_cloudbench.workloads.sweep.runs import Watch


def status(milliseconds, ios):
    """Return one of fio's running totals as --status-interval prints it."""
    way = {"runtime": milliseconds, "total_ios": ios, "io_bytes": ios * 4096}
    latency = {"lat_ns": {"N": ios, "mean": 1e6, "bins": {"1000000": ios}}}
    nothing = {"runtime": 0, "total_ios": 0, "io_bytes": 0, "lat_ns": {"N": 0, "mean": 0.0}}
    job = {"jobname": "load", "error": 0, "read": way | latency, "write": nothing}
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}, indent=2) + "\n"


def test_no_rate_is_reported_for_a_few_milliseconds():
    """On a slow machine the first totals cover almost no time, and the last ones follow the previous ones directly."""
    told = []
    watch = Watch(StepTimes(ramp_s=1, runtime_s=3, steady_after_s=None), told.append)
    for milliseconds, ios in ((1, 30_820), (1_001, 31_820), (2_001, 32_820), (2_003, 33_820)):
        watch._take(status(milliseconds, ios))
    assert [(round(each.seconds, 3), each.both.ios) for each in told] == [(1.0, 1_000), (1.0, 1_000)]
