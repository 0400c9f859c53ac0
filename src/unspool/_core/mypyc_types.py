"""Types and decorators for the compiled build.

``UNSPOOL_COMPILE=1 pip install .`` compiles the core with mypyc; ``hatch_build.py`` lists the files.
This file is not compiled.  It gives the same names a meaning in the interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union

T = TypeVar("T")

COMPILING = False  # mypyc is run with --always-true=COMPILING

if not TYPE_CHECKING:

    class Unchecked:
        """Type of a parameter that the compiler must not check.

        The compiler would raise a bare ``TypeError``; our own check says what to do.  In annotations,
        ``Unchecked[X]`` is ``X``, so ``help`` shows the right type.
        """

        def __class_getitem__(cls, item: object) -> object:
            return item

elif not COMPILING:
    Unchecked: TypeAlias = Annotated[T, "checked by hand"]
else:
    Unchecked: TypeAlias = Union[T, Any]  # noqa: UP007 - the compiler does not know X | Y here

if not COMPILING:
    i64: TypeAlias = int  # noqa: PYI042 - the name that mypyc uses
else:
    from mypy_extensions import i64 as i64  # noqa: PLC0414 - exported again
"""Native 64-bit integer of the compiled build, for loops and offsets."""

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - exported again
else:

    def mypyc_attr(**_attributes: bool | int):  # noqa: ANN202 - see the real one
        """Return a decorator that does nothing; mypyc recognises it by its name."""
        return lambda cls: cls
