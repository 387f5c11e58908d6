"""A volume that is detached by force under a running load: the load says when it was lost, and gives no figure."""

import threading

import pytest
from service_clients import client_of

from pytest_cloudbench import gp3
from pytest_cloudbench.workloads.fio.errors import StorageLost

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.ec2_instance("m5.large"),
    pytest.mark.ebs_volume(gp3(size_gib=1)),
    pytest.mark.fault("disks", "a volume is lost while fio runs"),
]


@pytest.fixture
def lose(_cloudbench_access, ec2_instance):
    """A function that detaches a volume by force, from outside, once fio runs on the instance."""
    access = _cloudbench_access
    client = client_of(access)
    threads = []

    def when_fio_runs(volume):
        def wait_and_detach():
            ec2_instance.run(["sh", "-c", "until pgrep -f '[f]io --output'; do sleep 0.05; done; sleep 1.5"])
            client.detach_volume(VolumeId=volume.id, Force=True)

        threads.append(threading.Thread(target=wait_and_detach, daemon=True))
        threads[-1].start()

    yield when_fio_runs
    for thread in threads:
        thread.join(30)


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_a_raw_volume_is_lost_under_a_load(ebs_volume, fio, lose, rw):
    assert ebs_volume.path
    lose(ebs_volume)
    with pytest.raises(StorageLost, match=r"the volume was lost at second \d+: .* there is no figure"):
        fio(ebs_volume, rw=rw, bs="4k", iodepth=4, runtime=6)
