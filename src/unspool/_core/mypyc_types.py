"""For the compiled build; nothing here is compiled itself.

``UNSPOOL_COMPILE=1 pip install .`` compiles the core with mypyc (``hatch_build.py``
lists the files).  The same files run under the interpreter, and the same tests
run over both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union

T = TypeVar("T")

COMPILING = False  # the compiler is told otherwise

if not TYPE_CHECKING:

    class Unchecked:
        """A parameter whose type the compiler must not enforce: our own errors say what to do about it.

        To everybody else it is the type in brackets, so that ``help`` shows what to pass.
        """

        def __class_getitem__(cls, item: object) -> object:
            return item

elif not COMPILING:
    Unchecked: TypeAlias = Annotated[T, "checked by hand"]
else:
    Unchecked: TypeAlias = Union[T, Any]  # noqa: UP007 - the same for the compiler

if not COMPILING:
    i64: TypeAlias = int  # noqa: PYI042 - its real name
else:
    from mypy_extensions import i64 as i64  # noqa: PLC0414 - handed on
"""A machine's integer, for the compiler: in loops that count, and where every delta is counted."""

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - handed on
else:

    def mypyc_attr(**_attributes: bool | int):  # noqa: ANN202 - see the real one
        """A hint for the compiler, which knows it by its name; it need not be there at run time."""
        return lambda cls: cls
