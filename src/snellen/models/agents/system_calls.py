"""The filter of system calls of an agent's sandbox, as bubblewrap takes it: a program of classic BPF.

Without it an agent could speak to the machine's host over AF_VSOCK, read the user's kernel keyrings, and take memory that
no process is charged for: by file systems of its own, which it mounts in a user namespace of its own, by files without a
name that it sends over a socket and closes, or by buffers of sockets that it makes as large as the machine's owner lets them.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence

import msgspec

# Classic BPF, and of each machine: its architecture, its numbers of socket() and clone(), and calls that an agent has no use
# for: shmget, msgget, keyrings, bpf, perf_event_open, userfaultfd, io_uring_setup, memfd_secret. Further memfd_create, whose
# files nobody can count while they are sent over a socket; unshare and setns, which lead to file systems and tables of open
# files that are not watched; clone3, of which a filter sees no flags (programs go back to clone).
_LOAD, _EQUAL, _ABOVE, _SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
CALLS = {
    "x86_64": (0xC000003E, 41, 56, (29, 68, 248, 249, 250, 272, 298, 308, 319, 321, 323, 425, 435, 447)),
    "aarch64": (0xC00000B7, 198, 220, (194, 186, 217, 218, 219, 97, 241, 268, 279, 280, 282, 425, 435, 447)),
}
_CLONE_NEW, _CLONE_THREAD, _CLONE_FILES = 0x7E020000, 0x10000, 0x400


_CLOSED_NAMES = (
    "shmget", "msgget", "add_key", "request_key", "keyctl", "unshare", "perf_event_open", "setns", "memfd_create", "bpf",
    "userfaultfd", "io_uring_setup", "memfd_secret",
)  # fmt: skip
_SETSOCKOPT = {"x86_64": 54, "aarch64": 208}
_SOL_SOCKET, _BUFFERS = 1, (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and both with FORCE
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)


def supported() -> bool:
    """Return True if there is a filter for this machine."""
    return os.uname().machine in CALLS


def bpf() -> bytes:
    """Return the filter for this machine."""
    audit, socket_call, clone_call, closed = CALLS[os.uname().machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_ABOVE, 0, 1, 0x40000000),  # those of x32
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for call in closed:
        code += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [
        (_EQUAL, 0, 5 + 2 * len(_BUFFERS), _SETSOCKOPT[os.uname().machine]),
        (_LOAD, 0, 0, 24),  # its level
        (_EQUAL, 1, 0, _SOL_SOCKET),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 32),  # its option
    ]
    for option in _BUFFERS:
        code += [(_EQUAL, 0, 1, option), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    code.append((_RETURN, 0, 0, _ALLOW))
    code += [
        (_EQUAL, 0, 6, clone_call),
        (_LOAD, 0, 0, 16),  # its flags
        (_SET, 3, 0, _CLONE_NEW),
        (_SET, 0, 1, _CLONE_THREAD),
        (_SET, 0, 1, _CLONE_FILES),  # a thread with open files of its own would not be watched
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    code += [(_EQUAL, 1, 0, socket_call), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 16)]  # the family of the socket
    for family in _FAMILIES:
        code += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def profile() -> bytes:
    """Return the filter as Apptainer takes it: a profile in the JSON of the OCI runtime specification.

    clone3 stays open, since Apptainer 1.4.5 has one error for all closed calls (EPERM), at which programs do not go back to
    clone. User namespaces are closed by their number there (supervisor.py).
    """

    def closed(names: Sequence[str], error: int, *conditions: tuple[int, int, int, str]) -> dict[str, object]:
        arguments = [
            {"index": index, "value": value, "valueTwo": two, "op": f"SCMP_CMP_{op}"}
            for index, value, two, op in conditions
        ]
        return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": arguments}

    new = [1 << bit for bit in range(32) if _CLONE_NEW >> bit & 1]
    thread = (0, _CLONE_THREAD | _CLONE_FILES, _CLONE_THREAD, "MASKED_EQ")
    others = [family for family in range(max(_FAMILIES)) if family not in _FAMILIES]
    rules = [closed(_CLOSED_NAMES, errno.ENOSYS), closed(["clone"], errno.EPERM, thread)]
    rules += [closed(["clone"], errno.EPERM, (0, flag, flag, "MASKED_EQ")) for flag in new]
    rules += [closed(["socket"], errno.EAFNOSUPPORT, (0, family, 0, "EQ")) for family in others]
    rules.append(closed(["socket"], errno.EAFNOSUPPORT, (0, max(_FAMILIES), 0, "GT")))
    low = 0xFFFFFFFF  # Linux looks at no other bits of these
    for option in _BUFFERS:
        rules.append(
            closed(["setsockopt"], errno.EPERM, (1, low, _SOL_SOCKET, "MASKED_EQ"), (2, low, option, "MASKED_EQ"))
        )
    return msgspec.json.encode({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})
