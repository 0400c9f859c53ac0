"""The compiler: from a declared dialect to tables for the machine."""
