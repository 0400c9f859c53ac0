"""Arguments of calls: one resumable reader per notation, each of which writes JSON text."""
