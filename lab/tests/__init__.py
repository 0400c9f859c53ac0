"""Tests of the programs in ``lab``, and of unspool inside other engines."""
