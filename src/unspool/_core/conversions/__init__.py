"""Conversions between messages and other forms: the messages of three chat APIs, and plain data."""
