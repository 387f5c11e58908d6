"""Evidence signed with the user's SSH key: the signer, later changes, and keys that cannot sign."""

import shutil
import subprocess

import pytest

from pytest_cloudbench.cli import main
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.signature import check_can_sign, check_signature, fingerprint_of

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")

PASSES = 'def test_it(volume, fio):\n    fio(volume, rw="randread")\n'


def make_key(path, passphrase=""):
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        passphrase,
        "-C",
        "bench@example.org",
        "-f",
        str(path),
    ]
    subprocess.run(command, check=True)
    return path


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path / "key")


@pytest.fixture
def signed(session, pytester, key):
    result = session(PASSES, "--cloudbench-evidence=kept", f"--cloudbench-sign={key}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"cloudbench evidence of 1 test *signed by {fingerprint_of(key)}; *"])
    return pytester.path / "kept"


def test_a_signature_names_its_signer(signed, key, tmp_path, capsys):
    assert main(["verify", str(signed)]) == 0
    said = capsys.readouterr().out
    assert f"signed by {fingerprint_of(key)} (whose key that is was not checked)" in said
    assert main(["verify", str(signed), "--signer", f"{key}.pub"]) == 0
    assert f"a key of {key}.pub" in capsys.readouterr().out
    allowed = tmp_path / "allowed"
    allowed.write_text("bench@example.org " + (tmp_path / "key.pub").read_text())
    assert check_signature(signed, allowed).identity == "bench@example.org"


def test_another_key_is_not_the_signer(signed, tmp_path, capsys):
    other = make_key(tmp_path / "other")
    assert main(["verify", str(signed), "--signer", f"{other}.pub"]) == 1
    assert f"not by a key of {other}.pub" in capsys.readouterr().out


def test_replaced_evidence_does_not_match_the_signature(signed, capsys):
    manifest = signed / "MANIFEST.sha256"
    manifest.write_bytes(manifest.read_bytes() + b"0" * 64 + b"  tests/more\n")
    assert main(["verify", str(signed)]) == 1
    assert "MANIFEST.sha256.sig: does not fit" in capsys.readouterr().out


def test_a_missing_or_foreign_signature_is_named(signed, tmp_path, capsys):
    signature = signed / "MANIFEST.sha256.sig"
    kept = signature.read_bytes()
    signature.unlink()
    assert main(["verify", str(signed)]) == 1
    assert "MANIFEST.sha256.sig: missing: the run was signed by SHA256:" in capsys.readouterr().out
    other = make_key(tmp_path / "other")
    subprocess.run(
        [
            "ssh-keygen",
            "-q",
            "-Y",
            "sign",
            "-f",
            other,
            "-n",
            "cloudbench-evidence",
            signed / "MANIFEST.sha256",
        ],
        check=True,
    )
    assert main(["verify", str(signed)]) == 1
    assert f"made by {fingerprint_of(other)}, where the run was signed by" in capsys.readouterr().out
    signature.write_bytes(kept)
    assert main(["verify", str(signed)]) == 0


def test_a_signature_for_another_purpose_is_refused(signed, key, capsys):
    (signed / "MANIFEST.sha256.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git", signed / "MANIFEST.sha256"], check=True
    )
    assert main(["verify", str(signed)]) == 1
    assert "MANIFEST.sha256.sig: does not fit" in capsys.readouterr().out


def test_unsigned_evidence_has_no_signer(recorded, key, capsys):
    assert main(["verify", str(recorded), "--signer", f"{key}.pub"]) == 1
    assert "MANIFEST.sha256.sig: missing: nobody signed this run" in capsys.readouterr().out


def test_a_key_that_cannot_sign_is_told_before_anything_is_measured(session, tmp_path):
    locked = make_key(tmp_path / "locked", "a passphrase")
    (tmp_path / "no-key").write_text("this is none")
    for path in (locked, tmp_path / "no-key", tmp_path / "nowhere"):
        result = session(PASSES, f"--cloudbench-sign={path}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {path} cannot sign the evidence: *"])
        with pytest.raises(EvidenceError):
            check_can_sign(path)


def test_a_signature_that_fails_at_the_end_fails_the_run_and_leaves_the_evidence(session, pytester, key):
    body = f"import os\n\ndef test_it(volume, fio):\n    fio(volume, rw='randread')\n    os.unlink({str(key)!r})\n"
    result = session(body, "--cloudbench-evidence=kept", f"--cloudbench-sign={key}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["cloudbench evidence in *kept is incomplete: *not an SSH key*"])
    assert main(["verify", str(pytester.path / "kept")]) == 0, "only the signature is missing"


def test_a_private_key_as_signer_is_refused(signed, key, capsys):
    assert main(["verify", str(signed), "--signer", str(key)]) == 1
    assert "is a private key: give the public one" in capsys.readouterr().out


def test_workers_sign_nothing_and_the_controller_signs_all(session, pytester, key):
    body = "import pytest\n\n@pytest.mark.parametrize('n', range(3))\n"
    body += PASSES.replace("(volume, fio)", "(volume, n, fio)")
    session(body, "-n2", "--cloudbench-evidence=kept", f"--cloudbench-sign={key}").assert_outcomes(passed=3)
    assert main(["verify", str(pytester.path / "kept"), "--signer", f"{key}.pub"]) == 0
