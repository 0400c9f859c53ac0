"""Generation: planning a request, sending it upstream, and relaying the parsed output."""
