"""Engine runs: other servers with unspool inside, on models without weights."""
