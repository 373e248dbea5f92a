"""pure-sasl's side of a login, step by step as it is told on standard input. See ../README.md."""

import sys

from puresasl import SASLError, SASLProtocolException
from puresasl.client import SASLClient


def unhex(word):
    return b"" if word == "-" else bytes.fromhex(word)


def to_hex(token):
    return token.hex() if token else "-"


def step(client, token):
    """kazoo starts with None and turns an answer of None into an empty token."""
    try:
        answer = client.process(token or None)
    except (SASLError, SASLProtocolException) as error:
        print(f"refused: {error}", file=sys.stderr)
        return "refused"
    return f"done {to_hex(answer)} -" if client.complete else f"continue {to_hex(answer)}"


def main():
    client = None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "client":
            user, password, protocol, server = (unhex(word).decode() for word in words)
            client = SASLClient(
                server, service=protocol, mechanism="DIGEST-MD5", username=user, password=password
            )
            answer = "ok"
        elif command == "step":
            answer = step(client, unhex(words[0]))
        else:
            raise ValueError(command)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
