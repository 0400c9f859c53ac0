"""Models as they lie on a disk: which dialect they speak, and what does not fit."""
