"""Earlier runs in S3, on moto's server on this machine."""

import os
from fnmatch import fnmatch
from pathlib import Path
from urllib.request import urlopen

import boto3
import pytest
from boto3.exceptions import S3TransferFailedError
from botocore.exceptions import HTTPClientError

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence import places
from pytest_cloudbench.evidence.baseline import NoBaseline

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
    urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()
    server.stop()


def copied(place, warn=pytest.fail):
    return places.copied(place, warn)


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
    (folder,) = copied("s3://runs/nightly")
    files = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert files
    assert copied("s3://runs/nightly") == [folder]
    assert files == {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_was_deleted_from_the_bucket_does_not_count(s3):
    for run in ("one", "two"):
        s3.put_object(Bucket="runs", Key=f"nightly/{run}/journals/main.jsonl", Body=b"{}")
    assert [folder.name for folder in copied("s3://runs/nightly")] == ["one", "two"]
    s3.delete_object(Bucket="runs", Key="nightly/one/journals/main.jsonl")
    assert [folder.name for folder in copied("s3://runs/nightly")] == ["two"]
    assert [folder.name for folder in places.evidence_at(["s3://runs/nightly"], pytest.fail)] == ["two"]


def test_the_prefix_may_be_one_run(s3):
    s3.put_object(Bucket="runs", Key="nightly/one/journals/main.jsonl", Body=b"{}")
    s3.put_object(Bucket="runs", Key="nightly/one-more/journals/main.jsonl", Body=b"{}")
    assert [folder.name for folder in copied("s3://runs/nightly/one/")] == ["one"]


@pytest.mark.parametrize(
    "key",
    [
        "{outside}/journals/main.jsonl",
        "../../../../outside/journals/main.jsonl",
        "a/../../../../../outside/journals/main.jsonl",
        "a//{outside}/journals/main.jsonl",
        "./a/journals/main.jsonl",
    ],
)
def test_nothing_is_written_outside_the_cache(s3, tmp_path, monkeypatch, key):
    """The names of objects are chosen by whoever may write to the bucket. A service may list any name."""
    listed = {"Contents": [{"Key": key.format(outside=tmp_path / "outside"), "Size": 2}]}

    class Listing:
        def get_paginator(self, _name):
            return self

        def paginate(self, **_asked):
            return [listed]

        def download_file(self, _bucket, _key, path):
            Path(path).write_text("{}")

    monkeypatch.setattr(boto3, "client", lambda _name: Listing())
    before, told = set(tmp_path.rglob("*")), []
    assert copied("s3://runs", told.append) == []
    (warning,) = told
    assert "1 object was left out of s3://runs" in warning
    assert repr(listed["Contents"][0]["Key"]) in warning
    assert {path for path in set(tmp_path.rglob("*")) - before if path.is_file()} == set()


def test_absolute_keys_of_a_bucket_are_refused_with_one_warning(s3, session, tmp_path, capsys):
    for name in ("main", "gw0"):
        s3.put_object(Bucket="runs", Key=f"{tmp_path}/outside/journals/{name}.jsonl", Body=b"{}")
    said = "2 objects were left out of s3://runs: *outside/journals/gw0.jsonl'"
    options = ("--cloudbench-baseline=s3://runs", "--cloudbench-evidence=off")
    session(BODY.format(rate=3_000.0), *options).stdout.fnmatch_lines([f"*{said}"])
    assert not (tmp_path / "outside").exists()
    capsys.readouterr()
    assert main(["history", "s3://runs"]) == 3
    (line, *_) = capsys.readouterr().err.splitlines()
    assert fnmatch(line, f"*{said}")


def test_an_empty_prefix_has_no_runs(s3, session):
    result = session(
        BODY.format(rate=3_000.0), "--cloudbench-baseline=s3://runs/nothing", "--cloudbench-evidence=off"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["cloudbench baseline: no earlier runs"])


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://", "names no bucket"),
        ("s3://../x", "names no bucket"),
        ("s3://absent/x", "cannot be read"),
    ],
)
def test_a_place_that_cannot_be_read(s3, place, said):
    with pytest.raises(NoBaseline, match=said):
        copied(place)


def test_a_cache_that_cannot_be_written(s3, tmp_path):
    s3.put_object(Bucket="runs", Key="one/journals/main.jsonl", Body=b"{}")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(NoBaseline, match="XDG_CACHE_HOME"):
        copied("s3://runs")


@pytest.mark.parametrize("error", [S3TransferFailedError("half of it"), HTTPClientError(error="cut off")])
def test_a_download_that_breaks_off(s3, monkeypatch, error):
    s3.put_object(Bucket="runs", Key="one/journals/main.jsonl", Body=b"{}")

    def fails(*_asked):
        raise error

    monkeypatch.setattr("boto3.s3.inject.download_file", fails)
    with pytest.raises(NoBaseline, match="s3://runs cannot be read"):
        copied("s3://runs")
