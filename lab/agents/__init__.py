"""Agent runs: published agents against the gateway and a scripted engine."""
