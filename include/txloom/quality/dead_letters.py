"""Dead letters as people see them: by cause, with the position of each message, and never with its payload."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.quality.incidents import moment
from txloom.quality.messages import if_approved

EXAMPLES = 3
"""Dead letters of each cause that are shown; totals count all of them."""
CAUSES = 40
"""Causes that are shown."""
STAYS = (
    "Nobody is reminded of them any more. They stay in dead_letters, and transactions among them stay gaps of the cuts."
)
LONGEST = 120
"""Characters of a name or an id that are shown."""
_LINE = re.compile(r"(.+), line ([0-9]{1,18})")
_OFFSET = re.compile(r"(.+)\[([0-9]{1,9})\] at offset ([0-9]{1,18})")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&!$])")


@dataclass(frozen=True)
class Selection:
    """Which dead letters somebody chose: of some transactions, of some causes, at some positions, or all.

    transactions: their ids in dead_letters. messages: positions, as a listing writes them. version: only what this
    version of dead_letters has, which somebody approved; None: the newest.
    """

    transactions: Sequence[str] = ()
    causes: Sequence[str] = ()
    messages: Sequence[str] = ()
    everything: bool = False
    version: int | None = None

    @property
    def is_empty(self) -> bool:
        """Say whether nothing was chosen."""
        return not (self.transactions or self.causes or self.messages or self.everything)


ALL = Selection(everything=True)


@dataclass(frozen=True)
class Group:
    """The open dead letters of one cause; examples: one line for each of the first few."""

    cause: str
    hint: str
    events: int
    transactions: int
    since: datetime | None
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Open dead letters by cause; version: the Delta version that was read, so that a redrive takes exactly these."""

    groups: tuple[Group, ...]
    events: int
    transactions: int
    version: int | None


@dataclass(frozen=True)
class RedriveEffect:
    """What a redrive would do: messages that are landed again, and what is known of their transactions.

    events: messages, with those that belong to no transaction. tables: rows of the transactions by table. csns: of the
    transactions, as far as they are known. complete: transactions that need nothing but the redrive. valid_through: of
    the newest cut.
    """

    transactions: int
    events: int
    tables: tuple[tuple[str, int], ...]
    csns: tuple[int, ...]
    complete: int
    valid_through: int | None


@dataclass(frozen=True)
class DeadLetterOutcome:
    """The outcome of a redrive: how many of its transactions were released, wait, or are dead again, by cause."""

    released: int = 0
    waiting: int = 0
    dead: tuple[tuple[str, int], ...] = ()
    still_poison: int = 0
    each: tuple[str, ...] = ()
    """The first transactions, one line for each."""
    total: int = 0


def where(dead_letter: dict[str, Any]) -> str:
    """Return the position of a message: file and line, or topic, partition and offset.

    >>> where({"topic": "rows", "partition": 0, "offset": 7, "file": None, "line": None})
    'rows[0] at offset 7'
    >>> where({"topic": "rows", "partition": None, "offset": None, "file": "rows/1.jsonl", "line": 3})
    'rows/1.jsonl, line 3'
    """
    if dead_letter["file"] is not None:
        return plain(f"{dead_letter['file']}, line {dead_letter['line']}")
    return plain(f"{dead_letter['topic']}[{dead_letter['partition']}] at offset {dead_letter['offset']}")


def coordinates(text: str) -> dict[str, Any]:
    """Parse the position of a message as `where` writes it; raises ValueError for any other text.

    >>> coordinates("rows/1.jsonl, line 3")
    {'file': 'rows/1.jsonl', 'line': 3}
    >>> coordinates("rows[0] at offset 7")
    {'topic': 'rows', 'partition': 0, 'offset': 7}
    """
    if match := _LINE.fullmatch(text.strip()):
        return {"file": match[1], "line": int(match[2])}
    if match := _OFFSET.fullmatch(text.strip()):
        return {"topic": match[1], "partition": int(match[2]), "offset": int(match[3])}
    shape = "FILE, line N, or TOPIC[N] at offset N"
    raise ValueError(f"{plain(text)!r} is no position of a message: write it as the listing does: {shape}")


def shown(dead_letter: dict[str, Any]) -> str:
    """Return one line that identifies a dead letter: transaction, table, and position of its message."""
    transaction = (
        ""
        if dead_letter["kind"] == "poison" or dead_letter["transaction_id"] is None
        else f"{dead_letter['transaction_id']}: "
    )
    return plain(f"{transaction}{dead_letter['table'] or dead_letter['kind']}") + f", {where(dead_letter)}"


def plain(text: str) -> str:
    r"""Return a text of the source on one line of at most LONGEST characters; what cannot be printed becomes "?".

    >>> plain("a\nb\u202e")
    'a b?'
    """
    line = "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def escaped(text: str) -> str:
    """Return a text with a backslash before each character that Markdown or HTML would interpret.

    >>> escaped("<b>|x_1")
    '\\\\<b\\\\>\\\\|x\\\\_1'
    """
    return _MARKDOWN.sub(r"\\\1", text)


def redrive_effect(effect: RedriveEffect) -> list[str]:
    """Return in Markdown what an approval of a redrive does, what readers see of it, and whether it can be undone."""
    between = f", csn {effect.csns[0]} to {effect.csns[-1]}" if effect.csns else ""
    rows = ", ".join(f"{escaped(plain(table))} {count}" for table, count in effect.tables) or "none"
    late = 0 if effect.valid_through is None else sum(csn <= effect.valid_through for csn in effect.csns)
    below = (
        f" {late} of them lie at or below valid-through {effect.valid_through}: earlier cuts are amended."
        if late
        else ""
    )
    return [
        f"{effect.events} messages of {effect.transactions} transactions{between} are landed once more, and decided "
        "by the same rules.",
        f"Rows of these transactions, by table: {rows}. {effect.complete} of {effect.transactions} transactions are "
        "complete now and will be released; the others are dead letters again, unless what they lack has come.",
        f"Readers see what is released with the cut that this run publishes, not before.{below} A row that was changed "
        "since keeps its newer values.",
        "Nothing else changes: other dead letters stay as they are.",
        "It cannot be undone: what is released stays in the history. A wrong row is corrected at the source, or by a "
        "load of its table.",
    ]


DISMISSAL_EFFECT = (
    "No row of any table changes, and readers see the same.",
    "It can be undone: `jobs/dismiss.py --reopen` with the same choice and a reason.",
)


def markdown(listing: Listing, reason: str | None = None, effect: RedriveEffect | None = None) -> str:
    """Return a listing in Markdown, for the person who approves its redrive.

    reason: its dismissal instead, for this reason. effect: what the redrive would do.
    """
    if not listing.events:
        return "No open dead letter was chosen."
    lines = [f"**{_counted(listing)}** go through the buffer once more.", ""]
    if reason is not None:
        lines = [f"**{_counted(listing)}** are dismissed: {escaped(plain(reason))}", "", STAYS]
        lines += if_approved(DISMISSAL_EFFECT)
    elif effect is not None:
        lines += if_approved(redrive_effect(effect))[1:]
    lines += ["| cause | events | transactions | since |", "|---|---|---|---|"]
    for group in listing.groups[:CAUSES]:
        since = moment(group.since) if group.since else ""
        lines.append(f"| {escaped(group.cause)} | {group.events} | {group.transactions} | {since} |")
    if (more := len(listing.groups) - CAUSES) > 0:
        lines.append(f"| and {more} more causes | | | |")
    for group in listing.groups[:CAUSES]:
        lines += ["", f"**{escaped(group.cause)}** {escaped(group.hint)}", ""]
        lines += [f"- {escaped(example)}" for example in group.examples]
    return "\n".join(lines)


def text(listing: Listing) -> str:
    """Return a listing as plain text for a terminal."""
    lines = [f"{_counted(listing)} open" if listing.events else "no open dead letters"]
    for group in listing.groups:
        since = f" since {moment(group.since)}" if group.since else ""
        lines.append(f"{group.cause}: {group.events} events, {group.transactions} transactions{since}. {group.hint}")
        lines += [f"    {example}" for example in group.examples]
    return "\n".join(lines)


def _counted(listing: Listing) -> str:
    return f"{listing.events} events of {listing.transactions} transactions"


def outcome_in_markdown(outcome: DeadLetterOutcome) -> str:
    """Return the outcome of a redrive in Markdown."""
    lines = [f"**{outcome.released} of {outcome.total} transactions were released.**"]
    lines += [f"- {count} dead again: {escaped(cause)}" for cause, count in outcome.dead]
    lines += [f"- {outcome.waiting} wait for their missing parts"] if outcome.waiting else []
    lines += [f"- {outcome.still_poison} messages still cannot be read"] if outcome.still_poison else []
    lines += ["", *(f"- {escaped(line)}" for line in outcome.each)] if outcome.each else []
    if (more := outcome.total - len(outcome.each)) > 0 and outcome.each:
        lines.append(f"- and {more} more")
    return "\n".join(lines)


def dismissed_in_markdown(count: int, person: str, reason: str) -> str:
    """Return in Markdown how many dead letters were dismissed, by whom, and why."""
    what = f"**{count} dead letters were dismissed** by {escaped(plain(person))}: {escaped(plain(reason))}"
    return f"{what}\n\n{STAYS}"


def grouped(rows: Sequence[dict[str, Any]], hints: dict[str, str]) -> tuple[Group, ...]:
    """Return groups from rows (cause, events, transactions, since, examples), those with most events first.

    hints: by cause; a cause without one gets an empty hint.
    """
    ordered = sorted(rows, key=lambda row: (-row["events"], row["cause"] or ""))
    return tuple(
        Group(
            plain(row["cause"] or "no cause"),
            hints.get(row["cause"], ""),
            row["events"],
            row["transactions"],
            row["since"],
            tuple(shown(each) for each in row["examples"]),
        )
        for row in ordered
    )
