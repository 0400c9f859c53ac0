"""How parrots call tools."""

from unspool import Dialect

PARROT = Dialect(
    name="parrot",
    models="Norwegian Blue",
    aliases=("polly",),
    call=("<squawk {name}>\n{args}\n</squawk>",),
    reasoning=("<preen>{text}</preen>",),
    request="hermes",
)
