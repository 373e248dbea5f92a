"""Cyrus SASL's side of a login, as Apache's C client uses it. See ../README.md."""

import ctypes
import ctypes.util
import struct
import sys

OK, CONTINUE = 0, 1
CB_LIST_END, CB_USER, CB_AUTHNAME, CB_PASS, CB_GETREALM = 0, 0x4001, 0x4002, 0x4004, 0x4008


class Callback(ctypes.Structure):
    _fields_ = [("id", ctypes.c_ulong), ("procedure", ctypes.c_void_p), ("context", ctypes.c_void_p)]


SIMPLE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
    ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_uint),
)
PASSWORD = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)
)
REALM = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
    ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_char_p),
)


class Client:
    """One login. What C points to is kept alive in the attributes."""

    def __init__(self, sasl, user, password, protocol, server):
        self.sasl, self.user, self.complete = sasl, user, False
        # A secret is its length, its bytes and a zero.
        self.secret = ctypes.create_string_buffer(struct.pack("L", len(password)) + password)
        self.procedures = [SIMPLE(self.give_name), PASSWORD(self.give_password), REALM(self.give_realm)]
        name, secret, realm = (ctypes.cast(p, ctypes.c_void_p).value for p in self.procedures)
        self.callbacks = (Callback * 5)(
            Callback(CB_USER, name), Callback(CB_AUTHNAME, name), Callback(CB_PASS, secret),
            Callback(CB_GETREALM, realm), Callback(CB_LIST_END),
        )
        self.connection = ctypes.c_void_p()
        code = sasl.sasl_client_new(
            protocol, server, None, None, self.callbacks, 0, ctypes.byref(self.connection)
        )
        if code != OK:
            raise RuntimeError(f"sasl_client_new: {code}")
        self.is_started = False

    def give_name(self, _context, _id, result, length):
        result[0] = self.user
        if length:
            length[0] = len(self.user)
        return OK

    def give_password(self, _connection, _context, _id, secret):
        secret[0] = ctypes.addressof(self.secret)
        return OK

    def give_realm(self, _context, _id, offered, result):
        result[0] = offered[0]
        return OK

    def step(self, token):
        out, length = ctypes.c_void_p(), ctypes.c_uint()
        answer = (ctypes.byref(out), ctypes.byref(length))
        if not self.is_started:
            self.is_started = True
            code = self.sasl.sasl_client_start(self.connection, b"DIGEST-MD5", None, *answer, None)
            if code not in (OK, CONTINUE):
                raise RuntimeError(f"sasl_client_start: {code}")
        code = self.sasl.sasl_client_step(self.connection, token, len(token), None, *answer)
        if code not in (OK, CONTINUE):
            detail = self.sasl.sasl_errdetail(self.connection).decode(errors="replace")
            print(f"refused: {detail}", file=sys.stderr)
            return "refused"
        said = ctypes.string_at(out, length.value).hex() if out and length.value else "-"
        return f"done {said} -" if code == OK else f"continue {said}"


def main():
    sasl = ctypes.CDLL(ctypes.util.find_library("sasl2"))
    sasl.sasl_errdetail.restype = ctypes.c_char_p
    if sasl.sasl_client_init(None) != OK:
        raise RuntimeError("sasl_client_init")
    client = None
    for line in sys.stdin:
        command, *words = line.split()
        values = [b"" if word == "-" else bytes.fromhex(word) for word in words]
        if command == "client":
            client, answer = Client(sasl, *values), "ok"
        elif command == "step":
            answer = client.step(values[0])
        else:
            raise ValueError(command)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
