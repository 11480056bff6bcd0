import socket
import threading

from consumer.pipe import Order, encode
from consumer.worker.line import Pipe


def test_worker_waits_for_its_order_whatever_a_module_says_about_the_patience_of_sockets() -> None:
    ours, workers = socket.socketpair()
    with ours, workers:
        workers.settimeout(0)  # as the default may be that a handler's module has set for all sockets
        pipe, found = Pipe(workers), list[Order | None]()
        waiting = threading.Thread(target=lambda: found.append(pipe.next_order()))
        waiting.start()
        ours.sendall(encode(_ORDER))
        waiting.join(20)
        assert found == [_ORDER]


_ORDER = Order(
    run="r",
    ticket="t",
    kind="k",
    generation=0,
    attempt=1,
    content_type="text/plain",
    content_encoding=None,
    charset=None,
    examine=False,
    memory_limit=0,
    cpu_seconds=0.0,
    open_files=0,
    processes=0,
    body=b"",
)
