"""A key pair of the account's own: it is used, and neither made nor removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.user_data import new_ssh_key
from pytest_cloudbench.fixtures.fixtures import _account_settings


def test_an_own_key_pair_is_used_and_left_alone(make_cloud, access, ec2, asked_of):
    key = new_ssh_key()
    ec2.import_key_pair(KeyName="own", PublicKeyMaterial=key.public_line.encode())
    settings = AccountSettings(key_name="own", private_key=key.private_openssh)
    assert key.private_openssh not in repr(settings)
    cloud = make_cloud(replace(access, settings=settings))
    instance = cloud.launch("t3.micro")
    assert (instance.key_name, instance.private_key) == ("own", key.private_openssh)
    [run] = asked_of(cloud, "run_instances")
    assert run["KeyName"] == "own"
    assert not asked_of(cloud, "import_key_pair")
    assert cloud.close().clean
    assert ec2.describe_key_pairs(KeyNames=["own"])["KeyPairs"]
    ec2.delete_key_pair(KeyName="own")


@pytest.fixture
def settings_of(pytester):
    return lambda *options: _account_settings(pytester.parseconfigure(*options))


def test_name_and_file_become_settings(settings_of, pytester):
    key = new_ssh_key()
    (pytester.path / "key").write_text(key.private_openssh)
    settings = settings_of("--cloudbench-key-pair=own", "--cloudbench-private-key=key")
    assert (settings.key_name, settings.private_key) == ("own", key.private_openssh)
    assert settings_of().key_name is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cloudbench-key-pair=own"], "give both"),
        (["--cloudbench-private-key=key"], "give both"),
        (["--cloudbench-key-pair=own", "--cloudbench-private-key=none"], "No such file"),
        (["--cloudbench-key-pair=own", "--cloudbench-private-key=key"], "cannot be read"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused(settings_of, pytester, options, said):
    (pytester.path / "key").write_text("no key")
    with pytest.raises(pytest.UsageError, match=said) as error:
        settings_of(*options)
    assert "no key" not in str(error.value).replace("no key pair", "")
