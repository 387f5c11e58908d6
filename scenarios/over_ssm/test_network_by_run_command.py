"""iperf3 between two instances, started as it was for the published measurement: by Run Command, with results in S3.

No SSH takes part: the instances have neither a key nor an open port. What is found is what `test_network_bandwidth.py`
finds by SSH.
"""

import pytest

MINUTE = 60


@pytest.mark.ec2_pair("m4.large")
def test_m4_is_flat(ec2_pair, iperf3):
    """Published: m4.large at 0.5 Gbit/s."""
    run = iperf3(ec2_pair, streams=5, duration=12 * MINUTE)
    assert run.capped_by(ec2_pair.client.network_baseline)
    assert run.steady()
    assert run.reaches("0.5 Gbit/s", within=0.15)
