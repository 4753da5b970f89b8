"""A package in the place of `libsignal`, which OpenClaw's WhatsApp channel would fetch from a git host.

The channel is never used here. Its modules are still loaded when OpenClaw starts and ask for these names, so that they
must be there; whoever calls one is told what this is.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = "signal-stand-in"

_CLASSES = ("ProtocolAddress", "SessionBuilder", "SessionCipher", "SessionRecord")
_FUNCTIONS = {
    "curve": ("generateKeyPair", "calculateSignature", "verifySignature", "calculateAgreement"),
    "crypto": ("calculateMAC", "decrypt", "encrypt", "deriveSecrets", "hash"),
}
_ABSENT = 'const absent = () => { throw new Error("libsignal is not part of this installation: no WhatsApp"); };\n'


def write(folder: Path) -> None:
    """Write the package into FOLDER of an installation."""
    package = folder / FOLDER
    (package / "src").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "libsignal", "version": "2.0.1", "main": "index.js"}\n')
    classes = "".join(f"exports.{name} = class {{ constructor() {{ absent(); }} }};\n" for name in _CLASSES)
    (package / "index.js").write_text(_ABSENT + classes)
    for module, names in _FUNCTIONS.items():
        (package / "src" / f"{module}.js").write_text(
            _ABSENT + "".join(f"exports.{name} = absent;\n" for name in names)
        )
