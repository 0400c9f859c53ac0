"""Planted bugs: a seeded program draws them from the source, and the tests must catch each one.

``python -m lab.mutations --seed 1`` writes the list into ``build/mutations.json``. With ``--run`` it plants
one bug of the list at a time in a copy of the checkout, runs tests until one fails, and adds the verdict to
the list. If a bug survives, either the changed code is equivalent to the original, or a test is missing.

Needs: nothing but the development environment.
Takes: seconds for each bug that the tests of its area catch, minutes for one that survives.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lab import ROOT

_COPIED: Final = (
    ".github",
    ".ci",
    "src",
    "tests",
    "docs",
    "tools",
    "lab",
    "benchmarks",
    "deploy",
    "examples",
    "fuzz",
    "requirements",
)
_MOST_MEMORY: Final = 3 << 30
_LINKED: Final = (".templates", ".tokenizers", ".clients")


@dataclass(frozen=True, slots=True)
class Area:
    """Part of the source, with the number of bugs to draw, and its tests, the fastest first."""

    bugs: int
    sources: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = {
    "core": Area(
        10,
        (
            "_core",
            "dialects",
            "tokens",
            "grammar",
            "parser.py",
            "streaming.py",
            "stages.py",
            "message.py",
            "events.py",
            "policies.py",
        ),
        ("tests/core", "tests/laws", "tests/grammar", "tests/tokens", "tests/dialects"),
    ),
    "wires": Area(5, ("wire",), ("tests/wire", "tests/laws")),
    "gateway": Area(11, ("gateway",), ("tests/gateway", "tests/project/test_deploy.py")),
    "planning": Area(3, ("planning", "templates"), ("tests/planning", "tests/templates")),
    "cli": Area(3, ("cli",), ("tests/cli", "tests/conformance", "tests/batch")),
    "batch": Area(3, ("batch",), ("tests/batch",)),
    "doctor": Area(3, ("models",), ("tests/models", "tests/cli")),
    "plug-ins": Area(2, ("integrations",), ("tests/integrations", "tests/project/test_plugins.py")),
}
"""Areas by name."""

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_SKIPPED_FIELDS: Final = ("annotation", "returns", "type_params", "bound", "decorator_list")
_SKIPPED_FUNCTIONS: Final = ("__repr__", "__rich_repr__")
_SKIPPED_TESTS: Final = re.compile(r"TYPE_CHECKING|COMPIL|sys\.platform|__name__ ==")
_SKIPPED_CALLS: Final = re.compile(r"^(super\(\)\.__init__|.*\.cache_clear)\(")


@dataclass(slots=True)
class Mutation:
    """One planted bug."""

    area: str
    kind: str
    file: str
    line: int
    start: int
    """Offset in bytes of the replaced text."""
    before: str
    after: str
    verdict: str = ""
    """``caught`` or ``survived``, empty before the run."""
    test: str = ""
    """First test that failed."""
    spare: bool = False
    """True for a bug that replaces an equivalent one of its area."""


def mutations(path: Path, area: str) -> Iterator[Mutation]:
    """Yield every bug that can be planted in a file, except those that no test could detect."""
    source = path.read_bytes()
    lines = list(itertools.accumulate((len(line) for line in source.splitlines(keepends=True)), initial=0))
    name = path.relative_to(ROOT).as_posix()

    def offset(line: int, column: int) -> int:
        return lines[line - 1] + column

    for node, replacement, kind in _replacements(ast.parse(source)):
        start = offset(node.lineno, node.col_offset)
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - a parsed node
        before = source[start : offset(node.end_lineno, node.end_col_offset)].decode()
        yield Mutation(area, kind, name, node.lineno, start, before, replacement)


def _replacements(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield nodes, the text that replaces them, and the kind of bug."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef(name=name) if name in _SKIPPED_FUNCTIONS:
                continue
            case ast.If(test=test) if _SKIPPED_TESTS.search(ast.unparse(test)):
                stack.extend(node.orelse)
                continue
            case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
                continue
        if isinstance(node, ast.expr):
            yield from _of_expression(node)
        elif isinstance(node, ast.stmt):
            yield from _of_statement(node)
        for name, value in ast.iter_fields(node):
            if name not in _SKIPPED_FIELDS:
                stack.extend(
                    child
                    for child in (value if isinstance(value, list) else [value])
                    if isinstance(child, ast.AST)
                )


def _of_expression(node: ast.expr) -> Iterator[tuple[ast.expr, str, str]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            flipped = _COMPARISONS[type(operator)]
            yield node, f"({ast.unparse(left)} {flipped} {ast.unparse(right)})", "comparison"
        case ast.Constant(value=bool(value)):
            yield node, str(not value), "constant"
        case ast.Constant(value=int(value)):
            yield node, str(value + 1), "off by one"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})", "dropped not"
        case ast.BoolOp(op=operator, values=values):
            joined = " or " if isinstance(operator, ast.And) else " and "
            yield node, f"({joined.join(f'({ast.unparse(value)})' for value in values)})", "and/or"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right) if not _is_text(node):
            sign = "-" if isinstance(operator, ast.Add) else "+"
            yield node, f"({ast.unparse(left)} {sign} ({ast.unparse(right)}))", "sign"


def _is_text(node: ast.BinOp) -> bool:
    """Return whether a sum joins strings or lists, where a minus sign would be an error anyway."""
    return any(
        isinstance(child, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(child, ast.Constant) and isinstance(child.value, str | bytes))
        for child in ast.walk(node)
    )


def _of_statement(node: ast.stmt) -> Iterator[tuple[ast.stmt | ast.expr, str, str]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None", "lost result"
        case ast.Expr(value=ast.Call() | ast.Await() as value) if not _SKIPPED_CALLS.match(
            ast.unparse(value)
        ):
            yield node, "pass", "lost statement"
        case ast.AugAssign():
            yield node, "pass", "lost update"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass", "lost update"
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
            yield test, f"(not ({ast.unparse(test)}))", "condition"
        case ast.Continue():
            yield node, "break", "lost round"


def draw(seed: int, spare: int) -> list[Mutation]:
    """Return the bugs for a seed: those of each area, and spare ones that can replace equivalent bugs."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    drawn: list[Mutation] = []
    for name, area in AREAS.items():
        files = sorted(
            file
            for source in area.sources
            for file in (
                [ROOT / "src/unspool" / source]
                if source.endswith(".py")
                else (ROOT / "src/unspool" / source).rglob("*.py")
            )
        )
        candidates: dict[str, list[Mutation]] = {}
        for file in files:
            for mutation in mutations(file, name):
                candidates.setdefault(mutation.kind, []).append(mutation)
        used: set[str] = set()
        for number in range(area.bugs + spare):
            # All kinds are equally probable, although most candidates are comparisons and lost results.
            kind = chance.choice(sorted(kind for kind, left in candidates.items() if left))
            fresh = [mutation for mutation in candidates[kind] if mutation.file not in used]
            mutation = chance.choice(fresh or candidates[kind])
            candidates[kind].remove(mutation)
            used.add(mutation.file)
            mutation.spare = number >= area.bugs
            drawn.append(mutation)
    return drawn


def plant(mutation: Mutation, copy: Path) -> None:
    """Plant a bug in an unchanged copy of the checkout."""
    original = (ROOT / mutation.file).read_bytes()
    length = len(mutation.before.encode())
    if original[mutation.start : mutation.start + length] != mutation.before.encode():
        raise SystemExit(f"{mutation.file} has changed since the list was written: draw again")
    changed = original[: mutation.start] + mutation.after.encode() + original[mutation.start + length :]
    (copy / mutation.file).write_bytes(changed)


def run(mutation: Mutation, copy: Path, tests: Sequence[str], *, everything: bool) -> None:
    """Run tests on a planted bug until one fails."""
    stages = [("--cases", "4", "-n0", *tests), ("-n2", *tests), *([("-n2", "tests")] if everything else [])]
    plant(mutation, copy)
    try:
        for arguments in stages:
            mutation.test = failing_test(copy, *arguments)
            mutation.verdict = "caught" if mutation.test else "survived"
            if mutation.test:
                return
    finally:
        shutil.copyfile(ROOT / mutation.file, copy / mutation.file)


def failing_test(copy: Path, *arguments: str) -> str:
    """Return the first test that fails in a copy, or an empty string."""
    done = subprocess.run(  # noqa: S603 - the tests of this checkout
        [
            sys.executable,
            "-m",
            "pytest",
            "-qq",
            "-x",
            "-p",
            "no:cacheprovider",
            "--tb=no",
            "-rfE",
            *arguments,
        ],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        preexec_fn=_limit_memory,
    )
    if done.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (
        failed[1] if failed else f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-200:]}"
    )


def _limit_memory() -> None:
    """Limit the memory, so that an endless loop fails before the machine runs out of memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))


def copied(folder: Path) -> Path:
    """Copy the files that the tests read, without environments and builds."""
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copyfile(path, folder / path.name)
    for name in _LINKED:
        if (ROOT / name).exists():
            (folder / name).symlink_to((ROOT / name).resolve())
    return folder


def main() -> int:
    """Draw bugs, or run the tests on the bugs of a list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--spare", type=int, default=1, metavar="N", help="spare bugs for each area")
    parser.add_argument("--list", type=Path, default=Path("build/mutations.json"), metavar="FILE")
    parser.add_argument("--run", action="store_true", help="run the tests on the bugs of the list")
    parser.add_argument("--again", action="store_true", help="also run bugs that already have a verdict")
    parser.add_argument(
        "--everything", action="store_true", help="run all tests on bugs that survive the tests of their area"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these tests instead of the area's")
    parser.add_argument("--only", metavar="NUMBERS", help="bugs to run, for example 3,17")
    options = parser.parse_args()
    if not options.run:
        drawn = draw(options.seed, options.spare)
        write(options.list, drawn)
        for number, mutation in enumerate(drawn):
            print(describe(number, mutation))
        return 0
    listed = [Mutation(**entry) for entry in json.loads(options.list.read_text(encoding="utf-8"))]
    only = {int(number) for number in options.only.split(",")} if options.only else set(range(len(listed)))
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = copied(Path(folder))
        for number, mutation in enumerate(listed):
            if number in only and (options.again or not mutation.verdict):
                run(
                    mutation, copy, options.tests or AREAS[mutation.area].tests, everything=options.everything
                )
                print(describe(number, mutation), flush=True)
                write(options.list, listed)
    return int(any(listed[number].verdict == "survived" for number in only))


def describe(number: int, mutation: Mutation) -> str:
    """Return one line about a bug."""
    before, after = (" ".join(text.split())[:80] for text in (mutation.before, mutation.after))
    place = f"{mutation.file.removeprefix('src/unspool/')}:{mutation.line}"
    what = f"{mutation.area}: {place}: {mutation.kind}: {before} -> {after}"
    return f"{number:3} {'(spare) ' * mutation.spare}{what}  {mutation.verdict} {mutation.test}".rstrip()


def write(path: Path, listed: list[Mutation]) -> None:
    """Write the list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(mutation) for mutation in listed], indent=1), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
