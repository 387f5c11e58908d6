"""Secrets in every source of evidence: none of them is in the evidence, which still replays."""

import base64
import gzip
import shutil
import subprocess

import pytest
import recorded_runs

# Loaded here so that the sessions inside these tests do not load them again.
import pytest_cloudbench.aws.cloud
import pytest_cloudbench.resources.ec2  # noqa: F401
from pytest_cloudbench.evidence.verify import verify

KEY_ID = "AKIAQYLPMN5HGWXTBK3Z"
SECRET_KEY = "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"
TOKEN = "IQoJb3JpZ2luX2VjEJr" + "Zx7Kp2Vq9Ls4Wt6Yb1Nc8Md3Fg5Hj0" * 8
PEM_BODY = "MIIEowIBAAKCAQEAz7Kp2Vq9Ls4Wt6Yb1Nc8Md3Fg5Hj0Qr2St4Uv6Wx8Yz0Ab2C"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----\n"
SIGNATURE = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
SIGNED_URL = (
    f"https://results.s3.amazonaws.com/r.tar?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={KEY_ID}%2Fx"
    f"&X-Amz-Security-Token={TOKEN}&X-Amz-Signature={SIGNATURE}"
)
PASSWORD = "correct-horse-battery-staple"
KNOWN = "opaqueandknownonlybyitsname"
CLOUD_KEY = "the-secret-key-of-this-cloud"
SECRETS = (KEY_ID, SECRET_KEY, TOKEN, PEM_BODY, SIGNATURE, PASSWORD, KNOWN, CLOUD_KEY)

PLANTED = '''
PLANTS = """%(plants)s"""


def planted_fio(target, job, *, pace, on_progress):
    return recorded_runs.measured(
        raw={
            "result.json": PLANTS.encode() + b'{"jobname": "x", "AWS_SECRET_ACCESS_KEY": "%(secret)s"}',
            "series_iops.log": b"1000, 3000, 0, 4096, 0\\\\n" * 50,
        },
        command=f"fio --filename=/dev/x --password %(password)s {PLANTS}",
        conditions=(PLANTS,),
        asked={"token": "%(known)s", "note": PLANTS},
        target=target.label,
    )


class PlantedCloud(Clouds):
    def limits(self, type):
        self._answer("describe_key_pairs", {"UserData": "%(data)s"}, {"KeyMaterial": """%(pem)s""", "Url": PLANTS})
        return super().limits(type)

    def unreachable_hint(self, instance):
        self._answer("get_console_output", {}, {"Output": "%(console)s"})
        return PLANTS


Host.says |= {"env": (0, PLANTS.encode(), PLANTS.encode()), "login": (0, b"%(known)s", b"")}


@pytest.fixture(scope="session")
def _cloudbench_cloud():
    yield PlantedCloud()


@pytest.fixture(autouse=True)
def _planted(monkeypatch, _stands_in):
    stand_in(monkeypatch, "fio", planted_fio)
'''

BODY = '''
import pytest
from conftest import PLANTS
from pytest_cloudbench import gp3
from pytest_cloudbench.evidence.recorder import recorder_of

# %(url)s


@pytest.mark.ec2_instance("m5.xlarge", commands=["export DB_PASSWORD=%(password)s", ["echo", "%(key)s"]])
@pytest.mark.ebs_volume(gp3(size_gib=10))
@pytest.mark.parametrize("case", ["%(key)s", "plain"])
def test_it(ec2_instance, ebs_volume, ec2, fio, record_property, request, case):
    """Logs in with password=%(password)s"""
    record_property("api_token", "%(known)s")
    record_property("note", PLANTS)
    ec2_instance.run(["env", "A_SECRET=%(password)s", "%(url)s"])
    ec2_instance.run(["login", "--password", "%(password)s", "--token=%(known)s", "%(cloud)s"])
    run = fio(ebs_volume, rw="randread", description="%(url)s", write_token="%(known)s")
    assert run.reaches("2,000 IOPS")
    ec2._provider.unreachable_hint(ec2_instance.launched)
    recorder = recorder_of(request.config)
    if recorder is not None:
        recorder.attach(request.node, "notes %(key)s.txt", PLANTS.encode(), "text/plain")
        recorder.attach(request.node, "picture.png", b"\\\\x89PNG\\\\0" + b"%(known)s", "image/png")
        recorder.pytest_cloudbench_step(request.node, PLANTS, 0.0, 1.0, ValueError("%(url)s"))


def test_failing(ebs_volume_of_nobody):
    pass


@pytest.fixture
def ebs_volume_of_nobody(ec2, fio, volume):
    fio(volume, rw="randread")
    raise ValueError(PLANTS)
'''


@pytest.fixture
def planted(session, pytester, monkeypatch):
    plants = "\n".join(
        [
            f"key {KEY_ID} {SECRET_KEY}",
            PEM,
            SIGNED_URL,
            f"password={PASSWORD}",
            f"said {KNOWN} and {CLOUD_KEY}",
            f"session {TOKEN}",
        ]
    )
    words = {
        "plants": plants,
        "secret": SECRET_KEY,
        "password": PASSWORD,
        "known": KNOWN,
        "key": KEY_ID,
        "url": SIGNED_URL,
        "pem": PEM,
        "cloud": CLOUD_KEY,
        "data": base64.b64encode(f"#!/bin/sh\necho {PASSWORD}\n".encode()).decode(),
        "console": base64.b64encode(f"booting\nexport DB_PASSWORD={PASSWORD}\nlogin:\n".encode()).decode(),
    }
    conftest = recorded_runs.STANDS_IN + recorded_runs.CLOUD_STANDS_IN + PLANTED % words
    pytester.makeconftest(conftest.replace("\\\\", "\\"))
    monkeypatch.setenv("SERVICE_API_TOKEN", KNOWN)
    monkeypatch.setenv("CLOUDBENCH_NOTE", SIGNED_URL)
    monkeypatch.setenv("AWS_PROFILE", f"profile-{KEY_ID}")
    monkeypatch.setenv("GITHUB_SERVER_URL", f"https://me:{PASSWORD}@git.example.org")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for command in (["init", "-q"], ["remote", "add", "origin", f"https://x:{PASSWORD}@git.example.org/x"]):
        subprocess.run(["git", *command], cwd=pytester.path, check=True)

    def run(*options):
        return session((BODY % words).replace("\\\\", "\\"), *options)

    return run


def contents_of(folder):
    """Return every file's name and content as text, unpacked, and again with base64 decoded."""
    for path in folder.rglob("*"):
        yield path.name
        if path.is_file():
            data = path.read_bytes()
            yield (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")


@pytest.mark.fault("secrets", "planted in every source of evidence", leak=True)
def test_the_evidence_has_none_of_the_planted_secrets(planted, pytester):
    result = planted(
        "--cloudbench-evidence=kept",
        f"--cloudbench-user=admin --password {PASSWORD}",
        "-o",
        f"cache_dir=x-{KEY_ID}",
    )
    result.assert_outcomes(passed=2, errors=1)
    assert not result.stdout.lines or "incomplete" not in str(result.stdout)
    everything = list(contents_of(pytester.path / "kept"))
    assert sum("(removed: " in text for text in everything) >= 10
    for secret in SECRETS:
        forms = [secret, *(base64.b64encode(b"x" * pad + secret.encode()).decode()[8:-4] for pad in range(3))]
        for form in forms:
            found = [text[max(0, text.index(form) - 200) :][:300] for text in everything if form in text]
            assert not found, f"{secret[:12]}: {found[0]}"
    assert verify(pytester.path / "kept").exit_code == 0


def test_every_place_really_had_a_secret(planted, pytester, monkeypatch):
    """Without removal each secret is found, so the other test searches the right places."""
    from pytest_cloudbench.evidence.cleaner import Cleaner

    monkeypatch.setattr(Cleaner, "text", lambda self, text: text)
    monkeypatch.setattr(Cleaner, "data", lambda self, data: data)
    monkeypatch.setattr(Cleaner, "named", lambda self, name, value: value)
    planted("--cloudbench-evidence=kept", f"--cloudbench-user=admin --password {PASSWORD}").assert_outcomes(
        passed=2, errors=1
    )
    everything = list(contents_of(pytester.path / "kept"))
    for secret in SECRETS:
        assert any(secret in text for text in everything), secret
    for name, least in {
        '"kind":"open"': (PASSWORD, KEY_ID, SIGNATURE),
        '"kind":"begin"': (PASSWORD, KEY_ID),
        '"kind":"call"': (PASSWORD, KEY_ID),
        '"kind":"answer"': (PEM_BODY,),
        '"kind":"command"': (PASSWORD, KNOWN, SIGNATURE),
        '"kind":"workload"': (SIGNATURE, KNOWN),
        '"kind":"phase"': (KNOWN, SECRET_KEY),
        '"kind":"step"': (SIGNATURE,),
        '"kind":"attachment"': (KEY_ID,),
    }.items():
        lines = [line for text in everything for line in text.splitlines() if name in line]
        for secret in least:
            assert any(secret in line for line in lines), f"{name} has no {secret[:10]}"


def test_evidence_without_its_secrets_can_be_replayed(planted):
    planted("--cloudbench-evidence=kept").assert_outcomes(passed=2, errors=1)
    planted("--cloudbench-replay=kept").assert_outcomes(passed=2, errors=1)
