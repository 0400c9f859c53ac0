"""Inference of a dialect from raw outputs of a model."""
