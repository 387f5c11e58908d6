"""The rate at which secrets are removed from what runs record: MB/s for each kind of text.

python benchmarks/cleaning_cost.py
"""

import base64
import json
import random
import tarfile
import time
from pathlib import Path

from pytest_cloudbench.evidence.cleaner import Cleaner


def texts() -> dict[str, str]:
    """Return a text of each kind, of 1 to 3 MB."""
    rng = random.Random(1)
    kept = Path(__file__).parent.parent / "tests" / "evidence" / "kept"
    with tarfile.open(kept / "0.1.tar.xz") as archive:
        journals = "".join(
            archive.extractfile(each).read().decode() for each in archive if each.name.endswith(".jsonl")
        )
    source = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))
    fio = json.dumps(
        {
            "fio version": "fio-3.33",
            "jobs": [
                {
                    "jobname": f"job{job}",
                    "read": {
                        "clat_ns": {
                            "percentile": {f"{p / 10:.6f}": rng.randrange(10**7) for p in range(1000)}
                        }
                    },
                }
                for job in range(60)
            ],
        },
        indent=1,
    )
    repeated = {"journals of runs": journals, "fio JSON": fio, "Python source": source}
    return {
        **{name: text * max(1, 2_000_000 // len(text)) for name, text in repeated.items()},
        "log of figures": "".join(f"{n * 1000}, {rng.randrange(10**5)}, 0, 4096, 0\n" for n in range(80_000)),
        "base64 of a picture": base64.b64encode(rng.randbytes(1_500_000)).decode(),
        "console of a boot": "[    1.234567] cloud-init: key eu-central-1 token bucket pass 3 of 4, secret santa\n"
        * 20_000,
    }


def main() -> None:
    """Print a line for each kind of text."""
    began = time.perf_counter()
    Cleaner({}).text("warm up: password=x ghp_ sk- https://")
    print(f"{'first use':22} {(time.perf_counter() - began) * 1000:8.1f} ms")
    for name, text in texts().items():
        cleaner = Cleaner({})
        cleaner.data(text[:2000].encode())
        began = time.perf_counter()
        cleaner.data(text.encode())
        seconds = time.perf_counter() - began
        print(f"{name:22} {len(text) / 1e6 / seconds:8.1f} MB/s  ({len(text) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
