"""What a packet of H.264 says about itself, without being decoded.

Read from the headers of its NAL units (ITU-T H.264, 7.3.1 and table 7-1; units behind their length as in ISO/IEC
14496-15, 5.3): whether decoding may begin with it (all slices IDR), and whether it may be left out (no picture refers to
it: nal_ref_idc 0 in all slices). What is not understood to the last byte gives no answer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_SLICE, _IDR, _SPS, _PPS = 1, 5, 7, 8
# Supplemental information, delimiters and filler: nothing that decoding another picture needs.
_ASIDE = frozenset({6, 9, 12})


class Unit(NamedTuple):
    """One coded picture.

    Attributes:
        entry: decoding may begin here: no picture from here on refers to one before.
        spare: no picture refers to this one.
        parameters: sequence and picture parameter sets that travel in the packet, one after the other.
        refers: number of the picture parameter set that its first slice names.
    """

    entry: bool
    spare: bool
    parameters: bytes
    refers: int


def length_size(extradata: bytes | None) -> int:
    """Bytes of the length before each NAL unit, 1 to 4; 0 where units are not stored behind their length."""
    if not extradata or len(extradata) < 7 or extradata[0] != 1:
        return 0
    return (extradata[4] & 3) + 1


def read(packet: memoryview, prefix: int) -> Unit | None:
    """The picture in a packet; None where the packet is damaged, holds no whole picture, or anything unusual.

    Args:
        packet: bytes of the packet.
        prefix: `length_size` of its stream, above 0.
    """
    at, end = 0, len(packet)
    entry = spare = True
    refers = -1
    parameters = b""
    while at < end:
        size = int.from_bytes(packet[at : at + prefix], "big")
        at += prefix
        if size < 2 or at + size > end:
            return None
        header = packet[at]
        kind = header & 31
        if header & 128:
            return None
        if kind in (_SLICE, _IDR):
            if refers < 0:
                # Nearly always two bytes are enough, and these are often the same.
                refers = _picture_set(bytes(packet[at + 1 : at + 3]))
                if refers < 0:
                    refers = _picture_set(bytes(packet[at + 1 : at + 9]))
                if refers < 0:
                    return None
            entry = entry and kind == _IDR
            spare = spare and not header & 96
        elif kind in (_SPS, _PPS):
            parameters += packet[at : at + size]
        elif kind not in _ASIDE:
            return None
        at += size
    return Unit(entry, spare and not parameters, parameters, refers) if refers >= 0 else None


@lru_cache(maxsize=1 << 12)
def _picture_set(slice_header: bytes) -> int:
    """Which picture parameter set the first slice of a picture names (7.3.3); -1 where these bytes do not say so.

    Three Exp-Golomb numbers: first_mb_in_slice, which is 0 there; slice_type, 0 to 9; pic_parameter_set_id.
    """
    bits = f"{int.from_bytes(slice_header, 'big'):0{8 * len(slice_header)}b}"
    found = []
    at = 0
    for _ in range(3):
        zeros = bits.find("1", at) - at
        if zeros < 0 or at + 2 * zeros + 1 > len(bits):
            return -1
        found.append(int(bits[at + zeros : at + 2 * zeros + 1], 2) - 1)
        at += 2 * zeros + 1
    first, kind, refers = found
    return refers if first == 0 and kind <= 9 else -1
