"""A model of this machine behind an OpenAI-compatible endpoint: `chat` reads and writes the protocol, `app` is the
web application, `run` binds a port and serves it.
"""
