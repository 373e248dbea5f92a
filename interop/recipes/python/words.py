"""How bytes become one word of a line and come back.

Printable ASCII stands for itself; anything else, a space and a percent sign are written as %XX. The empty word is a
single percent sign, so that a word always has at least one character.
"""

EMPTY = "%"


def encode(value):
    """One word for bytes, text, a number or a bool (written as Java writes it)."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8")
    if not raw:
        return EMPTY
    return "".join(chr(each) if 0x20 < each < 0x7F and each != 0x25 else "%%%02X" % each for each in raw)


def decode(word):
    """The bytes of one word."""
    if word == EMPTY:
        return b""
    raw = bytearray()
    at = 0
    while at < len(word):
        if word[at] == "%":
            raw.append(int(word[at + 1 : at + 3], 16))
            at += 3
        else:
            raw += word[at].encode("utf-8")
            at += 1
    return bytes(raw)
