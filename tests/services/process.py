"""A component's process as tests treat it: what `txloom.generate.services` does, and it is paused at will."""

import signal

from txloom.generate.services import process
from txloom.generate.services.process import ServiceFailed, can_tie, free_port, listens, tied, wait_until

__all__ = ["Service", "ServiceFailed", "can_tie", "free_port", "listens", "tied", "wait_until"]


class Service(process.Service):
    """One process with a folder of its own, its log in it."""

    def stop(self, within: float = 30) -> None:
        self.resume()
        super().stop(within)

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
