"""The doctor: checks of a model's setup."""
