"""GoldenGate files for benchmarks: the declaration of orders with lines, and transactions as messages in two topics.

Rows of both tables lie in the topic `rows`, the metadata in the topic `metadata`; a cycle brings a file of each.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROWS, METADATA = "rows", "metadata"
DECLARED = """\
name: {name}
source: {{format: goldengate, files: {{path: "{inbox}", settle: 0s}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: {patience}}}
tables:
- {{name: orders, source: B.ORDERS, key: [id], columns: {{id: long, status: string, amount: "decimal(20,4)"}}}}
- {{name: lines, source: B.LINES, key: [id], columns: {{id: long, order_id: long, text: string}}}}
targets:
  mirrors: ["*"]
"""


@dataclass(frozen=True)
class Change:
    """A change of one row; a delete has no image after."""

    table: str
    op: str
    after: Mapping[str, Any] | None
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Transaction:
    """A transaction of the source; at: when it was committed."""

    csn: int
    changes: Sequence[Change]
    at: datetime

    @property
    def xid(self) -> str:
        """Return its id."""
        return xid_of(self.csn)


def xid_of(csn: int) -> str:
    """Return the id of the transaction with a csn."""
    return f"7.{csn % 101}.{csn}"


def declared(folder: Path, name: str, inbox: Path, *, more: str = "", patience: str = "30m") -> Path:
    """Write the declaration of a pipeline and return its file; more: what follows the mirrors."""
    file = folder / f"{name}.yaml"
    file.unlink(missing_ok=True)
    file.write_text(DECLARED.format(name=name, inbox=inbox, patience=patience) + more)
    return file


def rows_of(transaction: Transaction) -> Iterator[str]:
    """Yield the row messages of a transaction."""
    for place, change in enumerate(transaction.changes):
        message = {
            "table": f"B.{change.table.upper()}",
            "op_type": change.op,
            "op_ts": moment(transaction.at),
            "pos": f"{transaction.csn * 1_000_000 + place:020d}",
            "csn": str(transaction.csn),
            "xid": transaction.xid,
            "before": _image(change.before),
            "after": _image(change.after),
        }
        yield json.dumps({name: value for name, value in message.items() if value is not None})


def metadata_of(transaction: Transaction) -> str:
    """Return the metadata message of a transaction."""
    counts = Counter(change.table.upper() for change in transaction.changes)
    message = {
        "xid": transaction.xid,
        "csn": str(transaction.csn),
        "tx_ts": moment(transaction.at),
        "event_count": len(transaction.changes),
        "data_collections": [{"data_collection": name, "event_count": count} for name, count in counts.items()],
    }
    return json.dumps(message)


def moment(at: datetime) -> str:
    """Return a time as GoldenGate writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def write(inbox: Path, number: int, transactions: Sequence[Transaction]) -> None:
    """Write the two files of a cycle."""
    write_lines(inbox, ROWS, number, (line for each in transactions for line in rows_of(each)))
    write_lines(inbox, METADATA, number, map(metadata_of, transactions))


def write_lines(inbox: Path, topic: str, number: int, lines: Iterable[str]) -> None:
    """Write a file of a topic."""
    folder = inbox / topic
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{number:07d}.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in lines)


def _image(image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if image is None else {name.upper(): value for name, value in image.items()}
