"""A redacted run: its evidence has no account id, ARN or public address, and still verifies and replays."""

import gzip
import ipaddress
import re
import stat

import pytest
import recorded_runs
from hypothesis import given
from hypothesis import strategies as st

# Loaded here so that the sessions inside these tests do not load them again.
import pytest_cloudbench.aws.cloud
import pytest_cloudbench.resources.ec2  # noqa: F401
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.pseudonyms import PSEUDONYM, Pseudonyms, local_key
from pytest_cloudbench.evidence.verify import verify

ACCOUNT = "123456789012"
OTHER_ACCOUNT = "210987654321"
ARN = f"arn:aws:sts::{ACCOUNT}:assumed-role/Admin/jane@example.com"
KMS = f"arn:aws:kms:eu-west-1:{OTHER_ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PUBLIC = "54.171.12.34"
PUBLIC_6 = "2a05:d018:1:2::3"
NAME = "ec2-54-171-12-34.eu-west-1.compute.amazonaws.com"
HIDDEN = (ACCOUNT, OTHER_ACCOUNT, "jane@example.com", "1234abcd", PUBLIC, PUBLIC_6, "54-171-12-34")

PUBLIC_ADDRESSES = st.ip_addresses().filter(lambda address: address.is_global)
ACCOUNTS = st.integers(10**11, 10**12 - 1).map(str)


def pseudonyms(key=b"k" * 32):
    return Pseudonyms(key)


@given(PUBLIC_ADDRESSES, st.sampled_from(["", "from ", '{"a":"', "\\n", "[", "http://"]))
def test_a_public_address_becomes_another_of_its_kind_that_nobody_has(address, before):
    if address.version == 6 and before == "http://":
        before = "http://["
    told = pseudonyms().text(f"{before}{address} end")
    assert str(address) not in told
    found = ipaddress.ip_address(re.search(r"[0-9a-f:.]+(?= end)", told)[0].removeprefix("n"))
    assert found.version == address.version
    assert not found.is_global
    assert pseudonyms().text(told) == told
    assert pseudonyms().text(f"{before}{address} end") == told, "stable"
    assert pseudonyms(b"x" * 32).text(f"{before}{address} end") != told, "keyed"
    assert re.search(PSEUDONYM, told)


@given(st.ip_addresses(network="0.0.0.0/0").filter(lambda address: address.is_global), st.integers(4, 32))
def test_a_network_stays_a_network_of_its_length(address, length):
    network = ipaddress.ip_network((address, length), strict=False)
    if network.network_address.is_global:
        told = ipaddress.ip_network(pseudonyms().text(str(network)))
        assert told.prefixlen == length
        assert not told.network_address.is_global


@given(ACCOUNTS)
def test_an_account_id_stays_twelve_digits(account):
    known = pseudonyms()
    assert known.learn(account)
    told = known.text(f"account {account}, not 9{account}")
    assert re.fullmatch(rf"account 0000[0-9]{{8}}, not 9{account}", told)
    assert known.text(told) == told
    assert not known.learn(told.split()[1].strip(",")), "a pseudonym is not an account"


@given(ACCOUNTS, st.sampled_from(["user/me", "role/a/b", "key/1-2", "instance-profile/x"]))
def test_an_arn_keeps_its_service_and_region_only(account, resource):
    told = pseudonyms().text(f"as arn:aws:iam:eu-west-1:{account}:{resource}.")
    assert re.fullmatch(r"as arn:aws:iam:eu-west-1:0000[0-9]{8}:redacted-[0-9a-f]{12}\.", told)
    assert pseudonyms().text(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "10.0.3.4 and 172.31.1.2, 198.18.4.5, 127.0.0.1, 0.0.0.0/0, ::1, fe80::1",
        "kernel 6.1.112-122.189.amzn2023.x86_64, fio-3.36, amzn 2023.5.20240916.0",
        "1000, 3000, 0, 4096, 0\n123456789012, 1, 0, 4096\n",
        "2026-11-23T06:12:34.123Z and 06:12:34, 02:42:ac:11:00:02",
        "4.5 ms, 3,000.25 IOPS, ip-10-0-3-4.ec2.internal",
        "i-0123456789abcdef0 vol-0123456789abcdef0",
    ],
)
def test_private_addresses_figures_versions_times_and_ids_stay(text):
    assert pseudonyms().text(text) == text


def test_a_field_of_an_account_is_known_everywhere_afterwards():
    cleaner = Cleaner({}, pseudonyms())
    told = cleaner.value({"OwnerId": ACCOUNT, "Count": "210987654321"})
    assert told["OwnerId"] == cleaner.text(ACCOUNT) != ACCOUNT
    assert told["Count"] == "210987654321"
    assert cleaner.data(f"{ACCOUNT}\n".encode()) == f"{told['OwnerId']}\n".encode()


def test_without_redaction_nothing_is_replaced():
    cleaner = Cleaner({})
    cleaner.learn_account(ACCOUNT)
    assert cleaner.value({"OwnerId": ACCOUNT, "Arn": ARN, "Ip": PUBLIC}) == {
        "OwnerId": ACCOUNT,
        "Arn": ARN,
        "Ip": PUBLIC,
    }


def test_the_key_is_made_once_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert local_key() == local_key()
    [path] = (tmp_path / "cloudbench").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(local_key()) == 32


TOLD = f"{ARN} {KMS} {PUBLIC} {PUBLIC_6} {NAME} of {ACCOUNT}"
STAND_INS = f'''
class TellingCloud(Clouds):
    def limits(self, type):
        self._answer("describe_images", {{}}, {{"OwnerId": "{OTHER_ACCOUNT}", "PublicIpAddress": "{PUBLIC}"}})
        return super().limits(type)

    def unreachable_hint(self, instance):
        return "{TOLD}"


Host.says |= {{"env": (0, b"{TOLD}", b"")}}


@pytest.fixture(scope="session")
def _cloudbench_cloud():
    yield TellingCloud()
'''
BODY = f'''
import pytest
from pytest_cloudbench import gp3

SERVERS = ["{PUBLIC}"]
# {TOLD}


@pytest.mark.ec2_instance("m5.xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=10))
@pytest.mark.parametrize("server", SERVERS)
def test_it(ec2_instance, ebs_volume, ec2, fio, server):
    """Talks to {PUBLIC}"""
    ec2_instance.run(["env", "{ARN}", server])
    run = fio(ebs_volume, rw="randread", description=server + " {ARN}")
    assert run.reaches("2,000 IOPS")
    ec2._provider.unreachable_hint(ec2_instance.launched)
'''


@pytest.fixture
def redacting(session, pytester, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pytester.makeconftest(recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + STAND_INS)
    return lambda *options, body=BODY: session(body, *options)


def contents_of(folder):
    for path in folder.rglob("*"):
        yield path.name
        if path.is_file():
            data = path.read_bytes()
            yield (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")


@pytest.mark.parametrize("redacts", [True, False], ids=["redacted", "as it is"])
def test_a_redacted_run_hides_them_everywhere(redacting, pytester, redacts):
    options = ["--cloudbench-evidence=kept", f"--cloudbench-ssh-from={PUBLIC}/32"]
    redacting(*options, *(["--cloudbench-redact"] if redacts else [])).assert_outcomes(passed=1)
    everything = "\n".join(contents_of(pytester.path / "kept"))
    for hidden in HIDDEN:
        assert (hidden not in everything) is redacts, hidden
    assert verify(pytester.path / "kept").exit_code == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same key", "without the key"])
def test_a_redacted_run_replays(redacting, monkeypatch, tmp_path, elsewhere):
    redacting(
        "--cloudbench-evidence=kept", "--cloudbench-redact", f"--cloudbench-ssh-from={PUBLIC}/32"
    ).assert_outcomes(passed=1)
    if elsewhere:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    redacting("--cloudbench-replay=kept").assert_outcomes(passed=1)


def test_tests_that_differ_by_an_address_only_replay_with_the_key_only(redacting, monkeypatch, tmp_path):
    two = BODY.replace(f'SERVERS = ["{PUBLIC}"]', f'SERVERS = ["{PUBLIC}", "8.8.4.4"]')
    redacting("--cloudbench-evidence=kept", "--cloudbench-redact", body=two).assert_outcomes(passed=2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    redacting("--cloudbench-replay=kept", body=two).assert_outcomes(errors=2)


def test_a_key_that_cannot_be_made_is_refused_before_anything_runs(redacting, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    result = redacting("--cloudbench-redact")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*XDG_STATE_HOME*--cloudbench-redact*"])
