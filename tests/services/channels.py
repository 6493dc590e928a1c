"""What takes messages: an HTTP server and a mail server of this machine that keep all that they are sent."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hooks:
    """An HTTP server; it answers with `status`, and keeps path, headers and JSON of what it took."""

    port: int = 0
    status: int = 200
    taken: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.taken]


@contextmanager
def hooks() -> Iterator[Hooks]:
    """Run an HTTP server."""
    kept = Hooks()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if kept.status == 200:
                kept.taken.append((self.path, dict(self.headers), body))
            self.send_response(kept.status)
            self.send_header("Location", kept.url)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        kept.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kept
        server.shutdown()


@dataclass
class Mails:
    """A mail server; `refuses` is an answer to the sender's address, such as 550."""

    port: int = 0
    refuses: int | None = None
    taken: list[tuple[list[str], Any]] = field(default_factory=list)


@contextmanager
def mails() -> Iterator[Mails]:
    """Run a mail server that speaks as much SMTP as a client needs."""
    kept = Mails()

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            to: list[str] = []
            while line := self.rfile.readline().decode().strip():
                verb = line.split(":")[0].upper().split()[0]
                if verb == "DATA":
                    self._say("354 go on")
                    kept.taken.append((to, message_from_bytes(self._mail(), policy=policy.default)))
                if verb == "RCPT":
                    to.append(line.split("<")[1].rstrip(">"))
                self._say("550 no" if verb == "MAIL" and kept.refuses else "221 bye" if verb == "QUIT" else "250 yes")
                if verb == "QUIT":
                    return

        def _mail(self) -> bytes:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line)
            return b"".join(lines)

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        kept.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kept
        server.shutdown()
