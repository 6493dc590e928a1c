"""accept_loss: go on behind records of Kafka that are lost.

    python jobs/accept_loss.py --pipeline orders --warehouse /lake --topic dev.orders --reason "retention too short"

land_events refuses to skip records: those that aged out, a topic that was deleted and created again, an end below what
was landed. This accepts what is lost now of the topics that are named; it stands in the ledger, among the findings and
in every cut until a snapshot of all tables was loaded (jobs/load_snapshot.py).

Exit codes: 0 done; 2 a topic has lost nothing; 12 the brokers cannot be reached; 1 unforeseen.
"""

import sys

from txloom.pipelines.accept_loss import accept_loss
from txloom.pipelines.command import parser, run

if __name__ == "__main__":
    flags = parser("accept_loss", __doc__)
    flags.add_argument("--topic", action="append", required=True, help="a topic whose loss is accepted; may repeat")
    flags.add_argument("--reason", required=True, help="why, and who said so")
    extra = lambda given: {"topics": given.topic, "reason": given.reason}  # noqa: E731
    sys.exit(run("accept_loss", accept_loss, flags=flags, extra=extra, session="none"))
