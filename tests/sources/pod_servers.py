"""Pods that answer with any bytes, in threads, so that what they do costs the tests' event loop nothing."""

import socket
import threading
from contextlib import contextmanager, suppress


class RawPods:
    """
    Answers each request with `parts`, one send for each. accepted: connections so far. ended: set once a client has
    closed one.
    """

    def __init__(self, parts, *, closes, tls):
        self.parts, self.closes, self.tls = list(parts), closes, tls
        self.accepted = 0
        self.ended = threading.Event()
        self.server = socket.create_server(("", 0), backlog=1024)
        self.port = self.server.getsockname()[1]

    def run(self):
        with suppress(OSError):
            while True:
                connected, _ = self.server.accept()
                self.accepted += 1
                threading.Thread(target=self.answer, args=(connected,), daemon=True).start()

    def answer(self, accepted):
        with suppress(OSError), accepted if self.tls is None else self.tls.wrap_socket(accepted, True) as connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := connected.recv(2**16):
                assert request.endswith(b"\r\n\r\n")
                for part in self.parts:
                    connected.sendall(part)
                if self.closes:
                    return
        self.ended.set()


@contextmanager
def raw_pods(*parts, closes=True, tls=None):
    """At all addresses of 127.0.0.0/8."""
    pods = RawPods(parts, closes=closes, tls=tls)
    threading.Thread(target=pods.run, daemon=True).start()
    try:
        yield pods
    finally:
        pods.server.shutdown(socket.SHUT_RDWR)
        pods.server.close()


def head(*headers, length=None):
    stated = [*headers, *([] if length is None else [f"Content-Length: {length}"])]
    return "\r\n".join(["HTTP/1.1 200 OK", *stated, "", ""]).encode()


def plain(body):
    return head(length=len(body)) + body
