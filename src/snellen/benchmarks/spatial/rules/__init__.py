"""How a reply is read and scored, and figures over rows: pure functions, in the files of their benchmarks and of what several share."""
