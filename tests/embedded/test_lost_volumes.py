"""A volume that is detached by force before or under a load: the load says when it was lost, and gives no figure."""

import threading

import pytest
from service_clients import client_of

from pytest_cloudbench import gp3
from pytest_cloudbench.workloads.errors import StorageLost

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.ec2_instance("m5.large"),
    pytest.mark.ebs_volume(gp3(size_gib=1)),
]


LOST_UNDER_LOAD = r"the volume was lost at second \d+: .* there is no figure"


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


@pytest.fixture
def lose_before_start(_cloudbench_access, ec2_instance, monkeypatch):
    """A function that detaches a volume by force after all checks of the next load, before its job starts."""
    client = client_of(_cloudbench_access)
    host = ec2_instance.host
    start_job = host.start_job

    def before_start(volume, *, after_lock=False):
        def detach_and_start(argv, **options):
            client.detach_volume(VolumeId=volume.id, Force=True)
            host.run(["sh", "-c", 'while [ -e "$1" ]; do sleep 0.05; done', "sh", volume.path])
            if after_lock:
                argv = argv[next(at for at, word in enumerate(argv) if word.endswith("/fio")) :]
            return start_job(argv, **options)

        monkeypatch.setattr(host, "start_job", detach_and_start)

    return before_start


@pytest.mark.fault("disks", "a volume is lost while fio runs")
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_a_raw_volume_is_lost_under_a_load(ebs_volume, fio, lose, rw):
    assert ebs_volume.path
    lose(ebs_volume)
    with pytest.raises(StorageLost, match=LOST_UNDER_LOAD):
        fio(ebs_volume, rw=rw, bs="4k", iodepth=4, runtime=6)


@pytest.mark.fault("disks", "a volume is lost while fio runs")
def test_a_raw_volume_is_lost_under_a_sweep(ebs_volume, sweep, lose):
    assert ebs_volume.path
    lose(ebs_volume)
    with pytest.raises(StorageLost, match=LOST_UNDER_LOAD):
        sweep(ebs_volume, mix="4k-random-read", steps=(50,))


LOADS = {
    "fio": lambda volume, fio, sweep: fio(volume, rw="randread", runtime=1),
    "fio with a size": lambda volume, fio, sweep: fio(volume, rw="randread", runtime=1, size="64m"),
    "sweep": lambda volume, fio, sweep: sweep(volume, mix="4k-random-read", steps=(50,)),
    "initialisation": lambda volume, fio, sweep: volume.initialised(),
}


@pytest.mark.fault("disks", "a volume is lost between its check and fio's start")
@pytest.mark.parametrize("after_lock", [False, True])
@pytest.mark.parametrize("load", LOADS)
def test_a_raw_volume_is_lost_before_its_load_starts(
    ec2_instance, ebs_volume, fio, sweep, lose_before_start, load, after_lock
):
    path = ebs_volume.path
    lose_before_start(ebs_volume, after_lock=after_lock)
    with pytest.raises(
        StorageLost, match=r"the volume was lost before its load began: .* there is no figure"
    ):
        LOADS[load](ebs_volume, fio, sweep)
    assert ec2_instance.run(["test", "-e", path], check=False).exit_code == 1, "a file is left in /dev"
