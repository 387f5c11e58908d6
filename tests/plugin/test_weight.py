"""A session that uses no cloudbench fixture must not feel the plugin."""

import subprocess
import sys

HEAVY = ("boto3", "botocore", "fabric", "paramiko", "moto", "numpy", "scipy", "matplotlib", "msgspec", "yaml")


def test_nothing_heavy_is_imported_by_a_session_that_uses_no_fixture(pytester):
    pytester.makepyfile(
        f"""
        import sys

        def test_it():
            assert not [name for name in {HEAVY!r} if name in sys.modules]
        """
    )
    only_ours = ["-p", "pytest_cloudbench.plugin"]
    result = pytester.runpytest_subprocess(*only_ours, "-p", "no:cacheprovider", "--disable-plugin-autoload")
    result.assert_outcomes(passed=1)


def test_importing_the_package_imports_nothing_heavy():
    code = f"import sys, pytest_cloudbench; pytest_cloudbench.io2; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
