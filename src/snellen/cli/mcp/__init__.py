"""`snellen mcp`: the command line as tools of the Model Context Protocol, for agents and editors.

`command` has the options, `tools` what a client may ask and the command line that answers it, `places` which paths it may
name, and `children` the processes that run the command lines.
"""

from snellen.cli.mcp.command import mcp

__all__ = ["mcp"]
