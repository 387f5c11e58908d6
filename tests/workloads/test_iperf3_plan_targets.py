"""Targets of iperf3 that are not a pair of instances."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import run_iperf3


@pytest.mark.parametrize("given", ["198.18.0.5", None, ("client", "server")])
def test_a_target_that_is_not_a_path_is_refused(given: Any) -> None:
    with pytest.raises(BadIperf3Job) as refused:
        run_iperf3(given, Iperf3Job())
    assert str(refused.value) == (
        "iperf3 runs between two instances: give it ec2_pair, ec2.pair(type) or ec2.path(client, server), "
        f"not {given!r}"
    )
