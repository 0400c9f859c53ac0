"""Types and decorators for the compiled build.

``UNSPOOL_COMPILE=1 pip install .`` compiles the core with mypyc; ``hatch_build.py`` lists the compiled files.
This file is not compiled.  In the interpreted build, it defines stand-ins for the names that mypyc provides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union

T = TypeVar("T")

COMPILING = False  # true for mypyc, which is run with --always-true=COMPILING

if not TYPE_CHECKING:

    class Unchecked:
        """Type of a parameter that the compiler must not check.

        The compiled code would raise a bare ``TypeError``; the library's own check raises an error with
        advice instead.  As an annotation, ``Unchecked[X]`` is ``X``, so that ``help`` shows the right type.
        """

        def __class_getitem__(cls, item: object) -> object:
            return item

elif not COMPILING:
    Unchecked: TypeAlias = Annotated[T, "checked by hand"]
else:
    Unchecked: TypeAlias = Union[T, Any]  # noqa: UP007 - mypyc does not support X | Y here

if not COMPILING:
    i64: TypeAlias = int  # noqa: PYI042 - mypyc uses this name
else:
    from mypy_extensions import i64 as i64  # noqa: PLC0414 - re-exported
"""Integer type for loops and offsets, which is a native 64-bit integer in the compiled build."""

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - re-exported
else:

    def mypyc_attr(**_attributes: bool | int):  # noqa: ANN202 - as in mypy_extensions
        """Return a decorator that does nothing; mypyc recognises the decorator by its name."""
        return lambda cls: cls
