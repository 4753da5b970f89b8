"""Batch services: many requests in one file, answered within a day at a lower price.

`service` is what the engine sees; `openai`, `anthropic` and `gemini` speak the three protocols. The limits of a file are data
(limits.toml), and `refusals` reads smaller ones from the words of a service. The engine decides what is sent (snellen.engine.batches).
"""
