"""Credentials that end and are not renewed are compared with the time that they are needed for."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.account_settings import credentials_warning
from pytest_cloudbench.aws.clients import Clients

NOW = datetime(2026, 11, 23, 6, 30, tzinfo=timezone.utc)


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_warning_if_and_only_if_they_end_too_early(left_s, needed_s):
    warning = credentials_warning(NOW + timedelta(seconds=left_s), needed_s, "a lease", NOW)
    assert (warning is not None) == (left_s < needed_s)


def test_the_warning_says_when_they_end_and_what_takes_longer():
    warning = credentials_warning(NOW + timedelta(minutes=25), 3600, "a lease", NOW)
    assert warning is not None
    for part in ("06:55 UTC", "25 min", "a lease takes 60 min", "renew"):
        assert part in warning
    assert credentials_warning(None, 3600, "a lease", NOW) is None
    assert "in 0 min" in str(credentials_warning(NOW - timedelta(minutes=5), 60, "a lease", NOW))


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_is_that_of_the_environment(monkeypatch, tmp_path, ends):
    end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=2)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-token")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    if ends:
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", end.isoformat())
    else:
        monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION", raising=False)
    assert Clients(CloudAccess(region="us-east-1")).credentials_end() == (end if ends else None)


def test_credentials_from_a_process_are_renewed(monkeypatch, tmp_path):
    keys = '"AccessKeyId":"A","SecretAccessKey":"s","SessionToken":"t"'
    said = f'{{"Version":1,{keys},"Expiration":"2099-01-01T00:00:00Z"}}'
    (tmp_path / "said.json").write_text(said)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = cat {tmp_path / 'said.json'}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert Clients(CloudAccess(region="us-east-1")).credentials_end() is None


def test_given_keys_have_no_end(access):
    assert Clients(access).credentials_end() is None
