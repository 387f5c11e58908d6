"""The compiled core of the region's volumes. Optional: without a compiler the Python implementation is used."""

import zlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "pytest_cloudbench/twin/volumes/core.c"

setup(
    ext_modules=[
        Extension(
            "pytest_cloudbench.twin.volumes.core",
            [SOURCE],
            # Lets a core that was built from an older source be recognized.
            define_macros=[("SOURCE", f"{zlib.crc32((Path(__file__).parent / SOURCE).read_bytes())}L")],
            # No fused multiply-add: results are those of the Python implementation to the last bit.
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-ffp-contract=off"],
            optional=True,
        )
    ]
)
