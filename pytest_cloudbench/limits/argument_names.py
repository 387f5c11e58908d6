"""Errors for wrong argument names that suggest the right ones."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NEAR = 0.7
"""Least similarity of a suggested name; among short names, a lower one is often chance."""

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "ami": ("image",),
    "image_id": ("image",),
    "az": ("zone",),
    "availability_zone": ("zone",),
    "instance_type": ("type", "client_type"),
    "size": ("size_gib",),
    "volume_size": ("size_gib",),
    "throughput": ("throughput_mib",),
    "bandwidth": ("throughput_mib", "bandwidth_weighting"),
    "user_data": ("commands",),
    "sg": ("security_group",),
    "username": ("user",),
    "tolerance": ("within",),
}
"""Names that AWS and its tools use, with this project's names, which are too different to be guessed from them."""


def did_you_mean(name: str, names: Iterable[str], *, mark: str = "=") -> str:
    """Return "did you mean image=?" for the nearest of ``names``; "" if none is near. ``mark`` follows the name."""
    known = list(names)
    plain = name.lower().replace("-", "_")
    meant = [each for each in OTHER_NAMES.get(plain, ()) if each in known]
    near = meant or difflib.get_close_matches(plain, known, n=1, cutoff=_NEAR)
    return f"did you mean {near[0]}{mark}?" if near else ""


def named_arguments(name: str = "", **instead: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Make a function's TypeError for wrong arguments name the nearest argument or an example call.

    ``name`` is the function's name for its users, such as "ec2.launch". ``instead`` has advice for arguments that it
    does not take.
    """

    def wrap(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # the function was called, and raised it
                problem = _problem(name or function.__name__, function, args, kwargs, instead)
                if problem is None:
                    raise
                refused = TypeError(problem)
            raise refused

        return call

    return wrap


def _problem(
    name: str,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    instead: Mapping[str, str],
) -> str | None:
    """Return what is wrong with a call; None if unknown."""
    parameters = {key: each for key, each in inspect.signature(function).parameters.items() if key != "self"}
    if "self" in inspect.signature(function).parameters:
        args = args[1:]
    by_position = [key for key, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    named = [
        key
        for key, each in parameters.items()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    needed = [key for key, each in parameters.items() if each.default is each.empty and key in named]
    example = f"{name}({', '.join(key if key in by_position else f'{key}=...' for key in needed)})"
    if len(args) > len(by_position):
        first = f"{' and '.join(by_position)} by position and the rest" if by_position else "its arguments"
        given = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
        return f"{name}({given}): it takes {first} by name, such as {example}"
    for key in kwargs:
        if key not in named and not takes_any:
            said = instead.get(key) or did_you_mean(key, named) or f"it takes {', '.join(named)}"
            return f"{name} has no argument {key}=: {said}"
    missing = [key for key in needed if key not in kwargs and key not in by_position[: len(args)]]
    if missing:
        return f"{name} needs {' and '.join(f'{key}=' for key in missing)}: {example}"
    return None
