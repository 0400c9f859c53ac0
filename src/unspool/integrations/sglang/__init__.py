"""SGLang's detectors, ours: loaded by its entry-point group ``sglang.srt.plugins``.

SGLang calls :func:`load` in every one of its processes, before it reads its command
line.  Nothing of SGLang is imported for it: our names and detectors are made when, and
if, the process imports the lists and registries that they belong in.

=============  ============================================================
``compat``     which of SGLang's modules and names are asked for
``loading``    what is done when SGLang imports one of them
``naming``     which dialect a name stands for
``tools``      the detector of calls
``reasoning``  the detector of reasoning
``serving``    what the server knows of a turn, and its detectors are not told
=============  ============================================================
"""


def load() -> None:
    """Make our names known to SGLang; where that fails, say so in one line and leave it as it is."""
    from ._import_hooks import install

    install()
