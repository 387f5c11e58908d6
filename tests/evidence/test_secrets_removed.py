"""Secrets are removed from everything that is written: by name, by form, and by known value."""

import base64
import dataclasses
import importlib
import itertools
import json
import pkgutil
import random
import re
import string
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_cloudbench
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.secret_patterns import PATTERNS, SECRET_NAME

_CHARS = random.Random(7)


def made_up(alphabet, length):
    return "".join(_CHARS.choice(alphabet) for _ in range(length))


BASE64 = string.ascii_letters + string.digits + "+/"
KEY_ID = "AKIA" + made_up(string.ascii_uppercase + "234567", 16)
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY"
TOKEN = "FwoGZXIvYXdzE" + made_up(BASE64, 260)
PEM = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n"
    f"{made_up(BASE64, 70)}\n{made_up(BASE64, 38)}==\n"
    "-----END OPENSSH PRIVATE KEY-----\n"
)
RSA = PEM.replace("OPENSSH", "RSA")
SIGNATURE = made_up("0123456789abcdef", 64)
SIGNED = (
    "https://bucket.s3.amazonaws.com/results.tar?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    f"&X-Amz-Credential={KEY_ID}%2F20261120%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Signature={SIGNATURE}"
)
KEY_IN_BASE64 = base64.b64encode(f"#cloud-config\n{PEM}".encode()).decode()
PASSWORD_IN_BASE64 = base64.b64encode(b"#!/bin/sh\nexport DB_PASSWORD=hunter22\nrun the database\n").decode()

TEXTS = {
    "an access key": (f"found {KEY_ID} there", [KEY_ID]),
    "a temporary access key": (f"id=ASIA{KEY_ID[4:]};", [KEY_ID[4:]]),
    "a secret access key": (f"key {SECRET_KEY}\n", [SECRET_KEY]),
    "a session token": (f"x {TOKEN} y", [TOKEN]),
    "an OpenSSH key": (f"before\n{PEM}after", [PEM.splitlines()[2]]),
    "an RSA key": (RSA, [RSA.splitlines()[2]]),
    "a key in JSON": (json.dumps({"KeyPem": RSA}), [RSA.splitlines()[2], RSA.splitlines()[3]]),
    "a key cut off": (PEM[:120], [PEM[60:120].splitlines()[-1]]),
    "a key without its frame": (PEM.splitlines()[1] + PEM.splitlines()[2], [PEM.splitlines()[2]]),
    "a PuTTY key": ("Private-Lines: 1\n" + made_up(BASE64, 64) + "\nPrivate-MAC: 12", ["Private-Lines: 1\n"]),
    "a signed URL": (f"GET {SIGNED} HTTP/1.1", [KEY_ID, SIGNED[-64:]]),
    "a signed URL in JSON": (json.dumps(SIGNED).replace("&", "\\u0026"), [KEY_ID, SIGNED[-64:]]),
    "an old signed URL": (
        "http://s3/x?AWSAccessKeyId=abcdefgh&Signature=vjbyPxybdZaNmGa%3D",
        ["vjbyPxybdZaNmGa"],
    ),
    "a shared access signature": ("https://blob/x?sv=2022&sig=Zm9vYmFyYmF6cXV4MTIzNDU2", ["Zm9vYmFyYmF6"]),
    "a login in an address": ("git clone https://me:s3cr3t-pa55@git.example.org/x", ["s3cr3t-pa55"]),
    "an authorization header": (
        f"Authorization: AWS4-HMAC-SHA256 Credential={KEY_ID}/x, Signature=0badc0ffee",
        [KEY_ID, "0badc0ffee"],
    ),
    "a bearer token": ("curl -H 'Authorization: Bearer abc.def.ghi123' x", ["abc.def.ghi123"]),
    "a GitHub token": ("ghp_" + made_up(string.ascii_letters, 36), ["ghp_"]),
    "a GitLab token": ("glpat-" + made_up(string.ascii_letters, 20), ["glpat-"]),
    "a Slack token": ("xoxb-1234567890-abcdef", ["xoxb-"]),
    "a web token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", ["eyJzdWIi"]),
    "an assignment": ("export DB_PASSWORD=hunter22; run", ["hunter22"]),
    "an assignment in quotes": ('SECRET_TOKEN = "open sesame"', ["open sesame"]),
    "a JSON field": ('{"password": "hunter22", "x": 1}', ["hunter22"]),
    "a JSON field in a JSON text": (json.dumps('{"api_key": "hunter22"}'), ["hunter22"]),
    "a YAML field": ("passphrase: hunter22\nname: x", ["hunter22"]),
    "a credentials file": (
        f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET_KEY}\n",
        [KEY_ID, SECRET_KEY],
    ),
    "an option": ("mysql --password hunter22 --host x", ["hunter22"]),
    "an option in a list of words": ('run(["login", "--password", "hunter22"])', ["hunter22"]),
    "a login of curl": ("curl -s -u me:hunter22 https://x", ["hunter22"]),
    "base64 of a key": (KEY_IN_BASE64, [KEY_IN_BASE64[60:120]]),
    "base64 of an assignment": (PASSWORD_IN_BASE64, [PASSWORD_IN_BASE64[30:50]]),
}


@pytest.mark.parametrize("what", TEXTS)
def test_values_with_the_form_of_a_secret_are_removed(what):
    text, secrets = TEXTS[what]
    cleaner = Cleaner({})
    cleaned = cleaner.text(text)
    assert "(removed: " in cleaned
    for secret in secrets:
        assert secret in text, "the text contains the secret"
        assert secret not in cleaned
    assert cleaner.text(cleaned) == cleaned, "removing twice gives the same text"
    assert cleaner.data(text.encode()) == cleaned.encode()
    with_neighbours = json.loads(cleaner.text(json.dumps({"before": 1, "text": text, "after": [2, "x"]})))
    assert (with_neighbours["before"], with_neighbours["after"]) == (1, [2, "x"]), "JSON stays valid"


HARMLESS = [
    "held: 3,037 of 3,000 IOPS (101.2 %, at least 90 % required)",
    "4f2cc3a0d0e4f9a8b7c6d5e4f3a2b1c0d9e8f7a6",  # a git revision
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0",
    "arn:aws:sts::123456789012:assumed-role/Benchmark/session",
    "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#metricsV2",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIiywIflDeOzvtGW9h+Soi6s5NhgR0Aan4QPjEsZxs8q",
    "the token bucket holds 5,400,000 credits; tokens=5400000",
    "key: value, keys=3, a private network, a public_key=AAAA",
    "tests/performance/TestThroughputOfVolumes/part2/case1",
    "--rw=randread --bs=4096 --ioengine=libaio --iodepth=16",
    "ami-0c10dbe0a20230864 sg-74bd159ff35ca15cf i-a439cb44e56468eb4",
    '{"fio version": "fio-3.33", "clat_ns": {"percentile": {"99.000000": 12648448}}}',
    '"MetadataOptions":{"State":"applied","HttpTokens":"required"}',
    "cookie 5qzcnfkzwrsbmjkvqbcbgzmmd7xzyuxaqpjr",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_values_that_an_auditor_needs_are_kept(text):
    assert Cleaner({}).text(text) == text


@given(st.text(max_size=200))
def test_removing_is_idempotent(text):
    cleaner = Cleaner({})
    once = cleaner.text(text)
    assert cleaner.text(once) == once


@pytest.mark.parametrize("between", ["\n", "\n\n", " ", " ; ", " \n ", "\\n", "\\r\\n", "\\t", '"\n"'])
def test_adjacent_secrets_are_all_removed(between):
    cleaner = Cleaner({})
    for first, second in itertools.product(TEXTS, TEXTS):
        cleaned = cleaner.text(f"{TEXTS[first][0]}{between}{TEXTS[second][0]}")
        left = [secret for name in (first, second) for secret in TEXTS[name][1] if secret in cleaned]
        assert not left, f"{first} and {second}"


@given(st.text("0123456789,. \n-", max_size=500))
def test_logs_of_numbers_are_unchanged(text):
    assert Cleaner({}).data(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "piece", ["x", "a-", "a.b_", "Zm9v", "1,", "\\\\n", " -", "http", "a:", "'", "=a", "token"]
)
def test_time_is_linear_in_the_length_of_a_text(piece):
    """Every hint occurs once, so every pattern is tried on 200 KB of difficult text."""
    hints = " ".join(hint for pattern in PATTERNS for hint in pattern.hints)
    cleaner = Cleaner({})
    began = time.perf_counter()
    cleaned = cleaner.text(f"{piece * (200_000 // len(piece))} :// {hints} @")
    assert time.perf_counter() - began < 20, "quadratic time takes hours"
    assert cleaner.text(cleaned) == cleaned


def test_a_known_secret_is_removed_in_every_form():
    secret = "corréct horse/battery+staple\nsecond line"
    cleaner = Cleaner({})
    cleaner.learn(secret, None, "", "short")
    forms = [secret, quote(secret, safe=""), json.dumps(secret, ensure_ascii=False)[1:-1]]
    forms += [base64.b64encode(b"x" * pad + secret.encode() + b"tail").decode() for pad in range(4)]
    for form in forms:
        cleaned = cleaner.text(f"<{form}>")
        assert "staple" not in cleaned
        assert "(removed" in cleaned, form
        assert base64.b64encode(secret.encode()).decode()[6:20] not in cleaned
    assert cleaner.text("short words stay") == "short words stay"


def test_environment_variables_named_like_secrets_are_known():
    cleaner = Cleaner(
        {
            "APP_TOKEN": "plainwords",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/run/token",
            "HOME": "/home/me",
            "PWD": "/home/me",
            "SIGNING_SECRET": __file__,
            "LONG_SECRET": "x" * 5_000,
        }
    )
    assert cleaner.text(f"in {__file__}") == f"in {__file__}", "a path to a secret is not a secret"
    assert (
        cleaner.text("said plainwords in /run/token of /home/me")
        == "said (removed: secret) in /run/token of /home/me"
    )


def test_values_named_like_secrets_are_removed_and_remembered():
    cleaner = Cleaner({})
    cleaned = cleaner.value(
        {
            "KeyMaterial": PEM,
            "UserData": "IyEvYmluL3NoCg==",
            "nested": [{"SessionToken": "a-token-of-ours", "SecretAccessKey": ["one-secret", "two-secrets"]}],
            "pin_password": 1234567,
            "NextToken": None,
            "asked": {"iodepth": 16, "said": "a-token-of-ours and two-secrets"},
        }
    )
    assert cleaned == {
        "KeyMaterial": "(removed: private key)",
        "UserData": "(removed: user data)",
        "nested": [{"SessionToken": "(removed: token)", "SecretAccessKey": "(removed: access key)"}],
        "pin_password": "(removed: password)",
        "NextToken": None,
        "asked": {"iodepth": 16, "said": "(removed: secret) and (removed: secret)"},
    }


def test_values_of_options_named_like_secrets_are_removed():
    cleaner = Cleaner({})
    words = [
        "login",
        "--user",
        "me",
        "--password",
        "hunter22",
        "--api-key=abcdefgh",
        "-x",
        "--token",
        "t0ken-value",
    ]
    cleaned = cleaner.words(words)
    assert cleaned[:4] == words[:4]
    assert "hunter22" not in cleaned
    assert "abcdefgh" not in " ".join(cleaned)
    assert cleaned[6:8] == ["-x", "--token"]
    assert cleaned[8].startswith("(removed")


def test_binary_data_is_kept_or_removed_as_a_whole():
    cleaner = Cleaner({"MY_SECRET": "known-secret-value"})
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))
    assert cleaner.data(picture) == picture
    assert cleaner.data(picture + b"known-secret-value") == b"(removed: binary data with a secret in it)"
    latin = "Größe: 3 GB, password=hunter22".encode("latin-1")
    assert b"hunter22" not in cleaner.data(latin)
    assert cleaner.data(latin).startswith("Größe".encode("latin-1"))


def test_the_hints_of_every_pattern_occur_in_its_matches():
    """A hint that does not occur in a pattern's matches would disable the pattern."""
    reached = set()
    for text, _ in TEXTS.values():
        for number, pattern in enumerate(PATTERNS):
            if re.search(pattern.expression, text):
                assert not pattern.hints or any(hint in text.lower() for hint in pattern.hints)
                reached.add(number)
    assert reached == set(range(len(PATTERNS))), "every pattern is tested with a text"


def test_no_figure_is_named_like_a_secret():
    """No field of a measurement or of the cloud's facts may be removed because of its name."""
    found = set()
    for module in pkgutil.walk_packages(pytest_cloudbench.__path__, "pytest_cloudbench."):
        if ".twin" in module.name or module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        for kind in vars(loaded).values():
            if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.name:
                found |= {
                    f"{kind.__name__}.{field.name}"
                    for field in dataclasses.fields(kind)
                    if SECRET_NAME.search(field.name)
                }
    assert found == {
        "AccountSettings.private_key",
        "CloudAccess.access_key",
        "CloudAccess.secret_key",
        "CloudAccess.session_token",
        "HostLogin.private_key",
        "Intention.token",
        "KeyPair.private_key",
        "LaunchPlan.user_data",
        "LaunchedInstance.private_key",
        "RegionRecord.access_key",
        "RegionRecord.secret_key",
    }
