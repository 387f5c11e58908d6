"""Secrets are removed from everything that is written: by name, by form, and by known value."""

import base64
import dataclasses
import gzip
import importlib
import itertools
import json
import pkgutil
import random
import re
import string
import tarfile
import time
import tracemalloc
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_corpus import leaked, planted

import pytest_cloudbench
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.secret_patterns import (
    ATTACHED,
    PASSWORD_OPTIONS,
    PATTERNS,
    SECRET_ACCESS_KEY,
    SECRET_NAME,
    TOKEN_PATTERNS,
)
from pytest_cloudbench.evidence.token_formats import FORMATS

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
    "the end of a key": ("..." + RSA[60:], [RSA.splitlines()[2][-30:], RSA.splitlines()[3]]),
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


def tokens():
    """Yield a token of each format with each beginning."""
    for each in FORMATS:
        chars = [char for char in string.printable if re.fullmatch(each.alphabet, char)]
        for begin in each.begins:
            yield begin + made_up(chars, max(each.least, each.usual))


@pytest.mark.parametrize("around", ["{}", "x={};", '{{"a": "{}"}}', "({})"])
def test_tokens_of_every_service_are_removed(around):
    for token in tokens():
        assert token[-8:] not in Cleaner({}).text(around.format(token)), token


@pytest.mark.fault("secrets", "a secret of a promised kind in a text", leak=True)
def test_nothing_of_the_planted_corpus_is_left(record_property):
    corpus = planted()
    record_property("tried", len(corpus))
    assert len(corpus) > 250
    assert leaked(Cleaner({}).text, corpus) == []
    assert len(leaked(lambda text: text, corpus)) == len(corpus), "the search finds a secret that is left"


IN_CONTEXT = [
    "CREATE USER 'me'@'%' IDENTIFIED BY '{}'",
    'CREATE USER me IDENTIFIED BY "{}";',
    "ALTER USER me IDENTIFIED BY {};",
    "ALTER USER me IDENTIFIED WITH mysql_native_password BY '{}'",
    "GRANT ALL ON *.* TO 'me'@'%' IDENTIFIED BY PASSWORD '{}'",
    "CREATE ROLE me WITH LOGIN PASSWORD '{}' CREATEDB",
    "CREATE LOGIN me WITH PASSWORD = '{}'",
    "ALTER USER me WITH PASSWORD '{}';",
    "alter user me with encrypted password '{}';",
    "SET PASSWORD FOR 'me'@'%' = '{}'",
    "SET PASSWORD = PASSWORD('{}')",
    "psql -c \"ALTER USER me WITH PASSWORD '{}'\"",
    '["psql", "-c", "ALTER USER me WITH PASSWORD \'{}\'"]',
    '{"sql": "CREATE USER me IDENTIFIED BY \\"{}\\""}',
    "echo {} | sudo -S id",
    "echo '{}' | sudo -S -k id",
    "echo -n {}|sudo -kS id",
    "printf '%s\\n' '{}' | sudo -S apt-get update",
    "sudo -S id <<< {}",
    "sudo -S id <<< '{}'",
    'bash -c "echo {} | sudo -S id"',
    '["bash", "-c", "echo {} | sudo -S id"]',
    "echo {} | docker login -u me --password-stdin ghcr.io",
    "echo {} | gh auth login --with-token",
    "echo -n {} | cryptsetup luksOpen /dev/nvme1n1 x -",
    "cryptsetup luksFormat /dev/nvme1n1 <<< {}",
    "echo {} | sudo passwd --stdin me",
    "echo {} | openssl enc -aes-256-cbc -pass stdin",
    "echo {} | gpg --batch --passphrase-fd 0 -d x",
]
"""Statements of SQL and commands that read a password from their input."""


@pytest.mark.parametrize("text", IN_CONTEXT)
def test_passwords_of_statements_and_inputs_are_removed(text):
    cleaner = Cleaner({})
    cleaned = cleaner.text(text.replace("{}", "hunt3r!x"))
    assert "t3r!x" not in cleaned
    assert "hunt3r" not in cleaned
    assert cleaner.text(cleaned) == cleaned


NOT_SECRET = [
    "--passes 3",
    "fio --loops=2 --passes=3",
    "--token-bucket 512",
    "--token-count 5 --token-rate=3",
    "password_file=/etc/x",
    "--password-file /run/secrets/x",
    "PASSWORD_FILE: /etc/x",
    'passphrase_path = "/etc/x"',
    "token_url=https://example.org/x",
    "secret_arn=arn:aws:secretsmanager:us-east-1:1:secret:x",
    "secret_name: prod/db",
    '{"token_type": "Bearer"}',
    '{"token": 5}',
    '{"secret_bytes": 5}',
    '{"token_bucket_size": 5400000, "tokenLimit": "none"}',
    '{"passes": 3, "passed": "yes", "password_length": 12}',
    "<passes>3</passes><passed>yes</passed>",
    "<token-bucket>512</token-bucket>",
    "bypass=3 compass: north pass 3 of 4",
    "the volume is identified by its id and by 'vol-1'",
    "sudo -S reads the password from its input",
    "echo done | sudo tee /etc/x",
    'echo "$PASS" | sudo -S id',
    "echo vm.swappiness=1 | sudo tee -a /etc/sysctl.conf",
    "KeyError: 'password' not in 'x'",
    "PasswordAuthentication no",
    "credentials_file=/home/me/x",
    "--auth-type basic",
    '{"HttpTokens": "required", "HttpTokensCount": 3}',
    "expected a password, got None",
]
"""Names that describe a secret, and words that only look like names of secrets."""


@pytest.mark.parametrize("text", NOT_SECRET)
def test_what_only_describes_a_secret_is_kept(text):
    assert Cleaner({}).text(text) == text


@pytest.mark.parametrize(
    "value",
    [
        {"token": 5},
        {"secret_bytes": 5},
        {"token_bucket": "full"},
        {"password_file": "/etc/x"},
        {"secret_name": "prod/db"},
        {"token_count": 7},
        {"credential_type": "role"},
        {"api_key_path": "/run/x"},
    ],
)
def test_values_that_only_describe_a_secret_are_kept(value):
    assert Cleaner({}).value(value) == value
    ((name, inner),) = value.items()
    words = ["run", "--passes", "3", f"--{name.replace('_', '-')}", inner]
    assert Cleaner({}).words(words) == words


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


def test_recorded_evidence_is_unchanged():
    """Journals, fio's JSON, measurements and sources of a run that was cleaned when it was recorded."""
    seen = 0
    with tarfile.open(Path(__file__).parent / "kept" / "0.1.tar.xz") as archive:
        for member in archive:
            if not member.isfile():
                continue
            data = archive.extractfile(member).read()
            data = gzip.decompress(data) if member.name.endswith(".gz") else data
            assert Cleaner({}).data(data) == data, member.name
            seen += 1
    assert seen > 20


@given(st.integers(0, 2**32))
def test_what_an_audit_reads_is_unchanged(seed):
    """Figures, ids, sums, ARNs, device paths and pictures in base64, side by side."""
    rng = random.Random(seed)

    def some(alphabet, length):
        return "".join(rng.choice(alphabet) for _ in range(length))

    hexa, letters, digits = "0123456789abcdef", string.ascii_letters, "0123456789"
    lines = [
        f"vol-{some(hexa, 17)} i-{some(hexa, 17)} {some(hexa, 64)}  a/b.json",
        f"arn:aws:sts::{some(digits, 12)}:assumed-role/{some(letters, 30)}/{some(letters, 9)}",
        f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol{some(hexa, 17)}",
        json.dumps({"iops": rng.random() * 1e6, "clat_ns": {"99.000000": rng.randrange(10**9)}, "jobs": [1]}),
        f"{rng.randrange(10**6)}, {rng.randrange(10**6)}, 0, 4096, 0",
        f"held: {rng.randrange(10**6):,} of {rng.randrange(10**6):,} IOPS at 2026-11-28T10:{some('012345', 2)}:01Z",
        f"data:image/png;base64,{base64.b64encode(rng.randbytes(3000)).decode()}",
        f"SHA256:{base64.b64encode(rng.randbytes(32)).decode().rstrip('=')} {some(hexa, 40)}",
        f"02:{':'.join(some(hexa, 2) for _ in range(5))} 198.18.{rng.randrange(255)}.7:5201 fe80::{some(hexa, 4)}:1",
        "--name=job1 --rw=randread --bs=4096 --numjobs=64 --size=500m PWD=/home/me",
    ]
    text = "\n".join(lines)
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


def difficult(pattern):
    """Yield short texts that, repeated, make a pattern begin again and again: literals, and parts of matches."""
    yield from ("x", "a-", "a.b_", "Zm9v", "1,", "\\\\n", " -", "a:", "'", "=a", "\n", "h:5432:a:b:")
    for literal in (*pattern.starts[:4], *pattern.hints[:4]):
        yield from (
            literal + end for end in ("", ":", "='", "=a ", " -x ", " 'a' ", "\\n", ">", " a | sudo ")
        )
    for text in [each for each in SAMPLES if pattern.spans(each, each.lower())][:2]:
        yield from (text[: min(len(text), 600) * eighth // 8] for eighth in range(1, 9))


SAMPLES = [text for text, _ in TEXTS.values()] + [each.text for each in planted()]
SAMPLES += [each.replace("{}", "hunt3r!x") for each in IN_CONTEXT]
PEM_BEGIN = "-----BEGIN RSA PRIVATE KEY-----\n"


def seconds(pattern, text):
    lower = text.lower()
    began = time.process_time()
    pattern.spans(text, lower)
    return time.process_time() - began


@pytest.mark.parametrize("number", range(len(TOKEN_PATTERNS) + len(PATTERNS) + 1))
def test_time_is_linear_in_the_length_of_a_text(number):
    """Four times the text takes about four times as long; with quadratic time it would be 16 times."""
    pattern = (*TOKEN_PATTERNS, *PATTERNS, SECRET_ACCESS_KEY)[number]
    hints = " ".join((*pattern.hints, *pattern.starts))
    for piece in {*difficult(pattern), PEM_BEGIN} - {""}:
        short, long = (f"{piece * (size // len(piece))} {hints}" for size in (3_000, 12_000))
        longer = seconds(pattern, long)
        if longer < 0.05:  # if the time is quadratic, twice the text takes 0.2 s
            continue
        once = max(seconds(pattern, short), 0.005)
        assert once < 1, f"{piece!r} takes too long"
        # Once more if the machine was busy.
        assert longer < 10 * once or seconds(pattern, long) < 10 * once, piece


@pytest.mark.parametrize(
    "piece", ["h:5432:a:b:", PEM_BEGIN, "https://a?", "sshpass\\n", "password=", "E   - a\n"]
)
def test_a_long_difficult_text_is_cleaned_once_and_for_all(piece):
    cleaner = Cleaner({})
    cleaned = cleaner.text(piece * (200_000 // len(piece)))
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


@pytest.mark.parametrize("command", PASSWORD_OPTIONS)
def test_passwords_in_the_words_of_a_command_are_removed(command):
    for option in PASSWORD_OPTIONS[command]:
        words = ["sudo", f"/usr/bin/{command}".split(), "-x", "1", option, "two words", "last"]
        if command in ATTACHED:
            words[4:6] = [f"{option}two words"]
        words[1:2] = words[1]
        cleaned = Cleaner({}).words(words)
        assert "two words" not in " ".join(cleaned)
        assert cleaned[-1] == "last"
        assert len(cleaned) == len(words)
    assert Cleaner({}).words(["docker", "run", "-p", "80:80"]) == ["docker", "run", "-p", "80:80"]


def test_binary_data_is_kept_or_removed_as_a_whole():
    cleaner = Cleaner({"MY_SECRET": "known-secret-value"})
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))
    assert cleaner.data(picture) == picture
    assert cleaner.data(picture + b"known-secret-value") == b"(removed: binary data with a secret in it)"
    latin = "Größe: 3 GB, password=hunter22".encode("latin-1")
    assert b"hunter22" not in cleaner.data(latin)
    assert cleaner.data(latin).startswith("Größe".encode("latin-1"))


def test_every_pattern_is_found_by_its_literals():
    """A literal that does not occur in a pattern's matches would disable the pattern."""
    texts = SAMPLES + list(tokens())
    patterns = (*TOKEN_PATTERNS, *PATTERNS, SECRET_ACCESS_KEY)
    found = [pattern for pattern in patterns if any(pattern.spans(text, text.lower()) for text in texts)]
    assert [each for each in patterns if each not in found] == []


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


def test_what_makes_a_call_idempotent_is_no_secret():
    cleaner = Cleaner({})
    value = {"ClientToken": "3cc2fa9d-0f77-4b8c-8fd7-f160ce199294"}
    tags = {"cloudbench:token": "ed94e648-282b-497d-acc1-083d11fe5cf0"}
    assert cleaner.value([value, tags]) == [value, tags]
    [vault] = cleaner.value([{"client_token": "3cc2fa9d-0f77-4b8c-8fd7-f160ce199294"}])
    assert vault["client_token"].startswith("(removed: ")


def test_a_session_may_learn_many_secrets_and_keeps_little_of_each():
    """A pattern of all that are known, made anew for each, filled the cache of `re` with hundreds of long patterns."""
    cleaner = Cleaner({})
    secrets = [f"{random.Random(number).getrandbits(128):032x}" for number in range(240)]
    for at, secret in enumerate(secrets):
        if at == 40:
            tracemalloc.start()
        cleaner.learn(secret)
        assert secret not in cleaner.text(f"before {secret} and after")
    grown_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown_bytes / 200 < 20 * 1024
    assert not any(secret in cleaner.text(" ".join(secrets)) for secret in secrets)
