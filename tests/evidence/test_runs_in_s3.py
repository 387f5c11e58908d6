"""Earlier runs in S3, on moto's server on this machine."""

import os

import boto3
import pytest

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.baseline import NoBaseline
from pytest_cloudbench.evidence.places import copied

moto_server = pytest.importorskip("moto.server")

BODY = """
def test_it(volume, fio):
    rates[:] = [{rate}]
    assert fio(volume, rw="randread").iops > 0
"""


@pytest.fixture
def s3(monkeypatch, tmp_path):
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="runs")
    yield client
    server.stop()


def upload(client, folder, prefix):
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "runs", f"{prefix}/{path.relative_to(folder.parent)}")


def test_a_run_is_compared_with_runs_in_a_bucket(s3, session, pytester, tmp_path):
    for name, rate in (("one", 3_000.0), ("two", 3_003.0)):
        session(BODY.format(rate=rate), f"--cloudbench-evidence=kept/{name}")
        upload(s3, pytester.path / "kept" / name, "nightly/main")
    options = ("--cloudbench-evidence=off", "--cloudbench-regression=5%")
    result = session(BODY.format(rate=2_000.0), *options, "--cloudbench-baseline=s3://runs/nightly")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*violated: 2,000 IOPS against 3,001 IOPS in 2 earlier runs*"])
    copies = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert copies.count("measurement-1.json") == 2
    assert not [name for name in copies if name.endswith((".gz", ".source"))], (
        "the tool's own files stay there"
    )
    assert main(["history", "s3://runs/nightly/main/"]) == 0


def test_what_was_copied_is_not_copied_again(s3, session, pytester):
    session(BODY.format(rate=3_000.0), "--cloudbench-evidence=kept/one")
    upload(s3, pytester.path / "kept" / "one", "nightly")
    folder = copied("s3://runs/nightly")
    files = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert files
    assert copied("s3://runs/nightly") == folder
    assert files == {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_an_empty_prefix_has_no_runs(s3, session):
    result = session(
        BODY.format(rate=3_000.0), "--cloudbench-baseline=s3://runs/nothing", "--cloudbench-evidence=off"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["cloudbench baseline: no earlier runs"])


@pytest.mark.parametrize(
    ("place", "said"), [("s3://", "names no bucket"), ("s3://absent/x", "cannot be read")]
)
def test_a_place_that_cannot_be_read(s3, place, said):
    with pytest.raises(NoBaseline, match=said):
        copied(place)
