"""Compiler that turns a declared dialect into tables for the machine."""
