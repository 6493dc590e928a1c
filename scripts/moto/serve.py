"""Serve S3 from memory, and let of two conditional writes of one key at the same moment one be refused, as S3 does.

    .state/moto/bin/python scripts/moto/serve.py PORT

Moto looks whether a key is there and writes it later; requests run in threads, so that both of two could pass.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

LOCK = threading.Lock()


class Conditional:
    """Lets one request at a time write under a condition."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        """Take the application."""
        self.application = application

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        if not {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environment.keys() or environment["REQUEST_METHOD"] == "GET":
            return self.application(environment, start)
        with LOCK:
            return list(self.application(environment, start))


if __name__ == "__main__":
    served = Conditional(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), served, threaded=True)
