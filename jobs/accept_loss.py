"""accept_loss: continue after records of Kafka that are lost, or files that cannot be read.

    python jobs/accept_loss.py --pipeline orders --warehouse /lake --topic dev.orders --reason "retention too short"
    python jobs/accept_loss.py --pipeline orders --warehouse /lake --file dev.orders/9.jsonl.gz --reason "disk broke"

land_events refuses to skip records: those that aged out, a topic that was deleted and created again, an end below what
was landed. This accepts what is lost now of the topics that are named; the loss is recorded in the ledger, the findings
and every cut until a snapshot of all tables is loaded (jobs/load_snapshot.py). A file that cannot be read does not hold
up others; set aside, it is not tried again until it changes.

Exit codes: 0 done; 2 a topic has lost nothing, or a file could be read; 12 the brokers cannot be reached; 1 unforeseen.
"""

import sys

from txloom.steps.landing.accept_loss import accept_loss
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    flags = parser("accept_loss", __doc__)
    flags.add_argument("--topic", action="append", default=[], help="a topic whose loss is accepted; may repeat")
    flags.add_argument("--file", action="append", default=[], help="topic/name of a file to set aside; may repeat")
    flags.add_argument("--reason", required=True, help="why, and who said so")
    choices = lambda given: {"topics": given.topic, "files": given.file, "reason": given.reason}  # noqa: E731
    sys.exit(run(Job("accept_loss", accept_loss, flags, session="none", choices=choices)))
