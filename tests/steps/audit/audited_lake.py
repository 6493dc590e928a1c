"""A lake that is audited beside a live database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from called import step_of
from lake import Lake
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice


class AuditedLake(Lake):
    """A lake whose cycles run by hand, or beside an audit as a schedule runs them."""

    def deliver_changes(self) -> None:
        """Run a cycle over what the source has."""
        self.run()

    def audit(self, **choice: Any) -> dict[str, Any]:
        return dict(audit(step_of(self.pipeline, self.warehouse, f"audit-{self.runs}"), Choice(**choice)))

    @contextmanager
    def cycles(self) -> Iterator[None]:
        """Run cycles while a block runs, as a schedule does."""
        done, failed = threading.Event(), list[BaseException]()

        def deliver() -> None:
            try:
                while not done.is_set():
                    self.deliver_changes()
            except BaseException as error:  # noqa: BLE001  (a thread's error is the test's)
                failed.append(error)

        thread = threading.Thread(target=deliver)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            if failed:
                raise failed[0]

    def results(self) -> dict[str, Any]:
        """Return the newest result of each table."""
        return {row["table"]: row for row in self.query("audit_results", "select * from t order by at")}
