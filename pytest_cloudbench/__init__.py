"""Cloud performance promises as pytest cases.

    from pytest_cloudbench import io2

    @pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
    def test_io2_reaches_its_provisioned_iops(ec2_instance, ebs_volume, fio): ...

Import public names from here; ``__init__.pyi`` lists them all, for type checkers and for this module. All other modules
of the package except `strategies` are private and may move between releases.

A public name is loaded at its first use, so a project that merely has the plugin installed does not pay for it.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_homes())
    home = None if name.startswith("__") else _homes().get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})


@cache
def _homes() -> dict[str, str]:
    """Return the module of each public name."""
    stub = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    lines = (line.split() for line in stub.splitlines() if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in lines}
