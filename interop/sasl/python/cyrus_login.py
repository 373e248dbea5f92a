"""Logs in to a server with Cyrus SASL and Kerberos, as Apache's C client does, and prints who it is there.

    python cyrus_login.py PORT [USER]

The ticket is where the environment says. USER is whom it asks to be, which a server must not believe.
"""

import ctypes
import ctypes.util
import socket
import struct
import sys

OK, CONTINUE = 0, 1
CB_LIST_END, CB_USER, CB_AUTHNAME = 0, 0x4001, 0x4002
SASL, WHO_AM_I = 102, 107
SIMPLE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
    ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_uint),
)


class Callback(ctypes.Structure):
    _fields_ = [("id", ctypes.c_ulong), ("procedure", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class Server:
    """A session, just enough of one."""

    def __init__(self, port):
        self.socket = socket.create_connection(("localhost", port), timeout=20)
        self.send(struct.pack(">iqiqi16s?", 0, 0, 10000, 0, 16, bytes(16), False))
        self.receive()

    def send(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self):
        size, = struct.unpack(">i", self.exactly(4))
        return self.exactly(size)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                sys.exit("the server hung up")
            data += more
        return data

    def call(self, op, body):
        self.send(struct.pack(">ii", 1, op) + body)
        reply = self.receive()
        error, = struct.unpack(">i", reply[12:16])
        if error:
            sys.exit(f"refused: {error}")
        return reply[16:]

    def exchange(self, token):
        answer = self.call(SASL, struct.pack(">i", len(token)) + token)
        return answer[4:]


class Login:
    """Cyrus's side. What C points to is kept alive in the attributes."""

    def __init__(self, user):
        self.sasl = ctypes.CDLL(ctypes.util.find_library("sasl2") or "libsasl2.so.2")
        self.user, self.connection = user, ctypes.c_void_p()
        self.give = SIMPLE(self.give_name)
        name = ctypes.cast(self.give, ctypes.c_void_p).value
        self.callbacks = (Callback * 3)(
            Callback(CB_USER, name), Callback(CB_AUTHNAME, name), Callback(CB_LIST_END),
        )
        self.check(self.sasl.sasl_client_init(None))
        self.check(self.sasl.sasl_client_new(
            b"zookeeper", b"localhost", None, None, self.callbacks, 0, ctypes.byref(self.connection)
        ))

    def give_name(self, _context, _id, result, length):
        result[0] = self.user
        if length:
            length[0] = len(self.user)
        return OK

    def check(self, code):
        if code not in (OK, CONTINUE):
            self.sasl.sasl_errdetail.restype = ctypes.c_char_p
            sys.exit(f"Cyrus: {code} {self.sasl.sasl_errdetail(self.connection)}")
        return code

    def start(self):
        out, length = ctypes.c_char_p(), ctypes.c_uint()
        code = self.check(self.sasl.sasl_client_start(
            self.connection, b"GSSAPI", None, ctypes.byref(out), ctypes.byref(length), None
        ))
        return code, ctypes.string_at(out, length.value)

    def step(self, token):
        out, length = ctypes.c_char_p(), ctypes.c_uint()
        code = self.check(self.sasl.sasl_client_step(
            self.connection, token, len(token), None, ctypes.byref(out), ctypes.byref(length)
        ))
        return code, ctypes.string_at(out, length.value) if out else b""


def text(data, at):
    size, = struct.unpack(">i", data[at:at + 4])
    return data[at + 4:at + 4 + size].decode(), at + 4 + size


def main():
    server = Server(int(sys.argv[1]))
    login = Login(sys.argv[2].encode() if len(sys.argv) > 2 else b"")
    code, token = login.start()
    answer = server.exchange(token)
    while code == CONTINUE:
        code, token = login.step(answer)
        answer = server.exchange(token)
    told = server.call(WHO_AM_I, b"")
    count, = struct.unpack(">i", told[:4])
    at = 4
    for _ in range(count):
        scheme, at = text(told, at)
        user, at = text(told, at)
        print(f"{scheme}: {user}")


main()
