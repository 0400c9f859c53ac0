// Test of the pure wheel in Pyodide, with the same checks as tools/dist_trial.py.
// The last line of the output is JSON.

import { readFile } from "node:fs/promises";

// Print only the message: Node.js would first print the source line, which is all of Pyodide.
process.on("uncaughtException", (error) => {
  console.error(error.message);
  process.exit(1);
});
const asked = JSON.parse(process.argv[2]);
const { loadPyodide, version } = await import(asked.pyodide);
const python = await loadPyodide({ stdout: () => {}, stderr: () => {} });
const extractDir = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
for (const wheel of asked.wheels) {
  python.unpackArchive(new Uint8Array(await readFile(wheel)), "wheel", { extractDir });
}
python.mountNodeFS("/repository", asked.root);
python.mountNodeFS("/ini", asked.ini);
python.globals.set("asked", python.toPy(asked));

const said = python.runPython(`
import contextlib, io, json, os, platform, sys

sys.dont_write_bytecode = True
os.environ["UNSPOOL_HYPOTHESIS"] = "quick"

def printed(run):
    """What it prints, and that it ended well."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = run()
        except SystemExit as ended:
            code = ended.code
    assert not code, out.getvalue()[-4000:]
    return out.getvalue()

import unspool
from unspool.cli import main

shown = printed(lambda: main(["demo", *asked["dialects"]]))
assert shown.count("finish_reason tool_calls") == len(asked["dialects"]), shown
chosen = [word for name in asked["dialects"] for word in ("--dialect", name)]
said = {
    "python": platform.python_version(),
    "version": printed(lambda: main(["--version"])).strip(),
    "suite": printed(lambda: main(["conformance", "run", "--chunking", "characters", *chosen])),
}

import pytest

os.chdir("/repository")
said["tests"] = printed(lambda: int(pytest.main([
    "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout",
    "-c", "/ini/pytest.ini", "--rootdir", "/repository", "--confcutdir", "/repository", "-o", "pythonpath=/repository/tests/support /repository/benchmarks /repository/tools /repository",
    "--cases", "4", *asked["tests"],
])))
json.dumps(said)
`);
console.log(JSON.stringify({ ...JSON.parse(said), pyodide: version }));
