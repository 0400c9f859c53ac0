"""A dialect for parrots."""

from unspool import Dialect
from unspool.dialects import Family

PARROT = Dialect(
    name="parrot",
    family=Family("Norwegian Blue", aliases=("polly",)),
    call=("<squawk {name}>\n{args}\n</squawk>",),
    reasoning=("<preen>{text}</preen>",),
    request="hermes",
)
