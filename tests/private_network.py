"""A network of its own for a program of a test: loopback only, with one port of the machine in it.

Manifests name ports, such as 10259, that other processes of the machine may have. One thread lives
in the network; what it starts or opens is there, too. Needs root.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")
_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_UP_AND_RUNNING: Final = 0x41


class PrivateNetwork:
    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function inside: sockets that it opens and processes that it starts stay there."""
        return self._thread.submit(function, *arguments, **named).result()


@contextmanager
def private_network(port: int) -> Iterator[PrivateNetwork]:
    """A network in which the machine's `port` of 127.0.0.1 is the same port."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        network = PrivateNetwork(thread)
        network.call(_enter)
        with network.call(socket.create_server, ("127.0.0.1", port)) as listener:
            threading.Thread(target=_forward, args=(listener, port), daemon=True).start()
            yield network
            listener.shutdown(socket.SHUT_RDWR)


def _enter() -> None:
    """Give this thread an empty network, and turn its loopback on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", _UP_AND_RUNNING)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def _forward(listener: socket.socket, port: int) -> None:
    with suppress(OSError):  # it ends when the listener is closed
        while True:
            inner, _ = listener.accept()
            outer = socket.create_connection(("127.0.0.1", port))
            for ends in ((inner, outer), (outer, inner)):
                threading.Thread(target=_copy, args=ends, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
