"""Strategies for messages that lie: whole ones of a format, of which parts are dropped, swapped, renamed or garbled."""

import codecs
import gzip
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

DEEP = [begin * levels + end * levels for levels in (300, 1_000, 100_000) for begin, end in ("[]", ('{"a":', "}"))]
NUMBERS = (
    *("0", "-0", "-1", "0.1", "1.0", "1e3", "1e308", "1e400", "-1e400", "1e-400", "1E-43", "007", "NaN", "-Infinity"),
    *(str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63) - 1), str(2**64), "9" * 40, "9" * 4300, "9" * 5000),
    "0." + "1" * 400,
)
TEXTS = (
    *("", " ", "\\u0000", "\\ud800", "\\udc00x", "\\ud83d\\ude00", "é", "null", "NaN", "Infinity", "1_000", "١٢", " 5"),
    *(
        "+5",
        "0000-00-00",
        "9999-12-31 23:59:59.9999999",
        "-4712-01-01",
        "2026-02-30 25:61:61",
        "+999999-01-01T00:00:00Z",
    ),
    *(
        "AQ==",
        "__debezium_unavailable_value",
        "{1,2",
        '{\\"a\\",NULL}',
        "1:" * 50,
        "0/0",
        "FFFFFFFF/FFFFFFFF",
        "a" * 9_999,
    ),
    *(
        "file=" + "." * 200 + ",pos=1",
        "file=a.1,pos=1",
        "0-1-37",
        "5.6.641",
        "I",
        "U",
        "D",
        "T",
        "r",
        "last",
        "\\u202e",
    ),
    *("shop.notes", "shop.wide", "other", "%s%n", "'; drop table t; --", "\\ufeff", "\\ufdd0", "9" * 41, "9" * 1000),
    *("1e-43", "1e-5000000"),
)
OBJECTS = ("{}", "[]", "[[]]", "[null]", '{"a":null}', '{"":1}', '[1,"a",{}]', '{"scale":2,"value":"AQ=="}')
OTHERS = ('{"scale":999999999,"value":"AQ=="}', '{"scale":-9,"value":"/"}', "null", "true", "false", "", "[,]", '{"a"}')
VALUES = [*NUMBERS, *(f'"{text}"' for text in TEXTS), *OBJECTS, *OTHERS, *DEEP]
NAMES = [f'"{name}"' for name in (*TEXTS, "ID", "id", "Id", "op", "schema", "payload", "NEW", "id_isMissing")]

Tree = Any
"""A JSON value: a list of its members, each of a name and a value; a list of elements; or the text of a scalar."""


class Members(list[list[Any]]):
    """What an object has, in order; a name may stand there twice."""


def tree(message: Any) -> Tree:
    """Return a message as a tree that can hold what no JSON value is."""
    if isinstance(message, dict):
        return Members([json.dumps(name, ensure_ascii=False), tree(value)] for name, value in message.items())
    return [tree(value) for value in message] if isinstance(message, list) else json.dumps(message, ensure_ascii=False)


def written(node: Tree) -> str:
    """Write a tree as JSON, or as what remains of it."""
    if isinstance(node, Members):
        return "{" + ",".join(f"{name}:{written(value)}" for name, value in node) + "}"
    return "[" + ",".join(map(written, node)) + "]" if isinstance(node, list) else node


def places(node: Tree) -> list[tuple[list[Any], int]]:
    """Return where values stand: a list, and the index in it."""
    paths: list[tuple[list[Any], int]] = []
    slots = [(member, 1) for member in node] if isinstance(node, Members) else []
    slots += [(node, index) for index in range(len(node))] if isinstance(node, list) and not slots else []
    for holder, index in slots:
        paths += [(holder, index), *places(holder[index])]
    return paths


def spoil(root: Tree, how: str, where: int, other: int) -> None:
    """Change one place of a tree."""
    holder, index = root, 0
    paths = places(root[0])
    if paths and how != "root":
        holder, index = paths[where % len(paths)]
    value = VALUES[other % len(VALUES)]
    if how == "swap" and paths:
        second, at = paths[other % len(paths)]
        holder[index], second[at] = second[at] if isinstance(second[at], str) else "null", holder[index]
    elif how == "wrap":
        holder[index] = [holder[index]] if other % 2 else Members([['"a"', holder[index]]])
    elif how in ("drop", "twice", "rename"):
        _members(root[0], how, where, other)
    else:
        holder[index] = value


def _members(root: Tree, how: str, where: int, other: int) -> None:
    """Drop a member of an object, or name it otherwise, or let it stand there twice."""
    objects = [root, *(holder[index] for holder, index in places(root))]
    objects = [node for node in objects if isinstance(node, Members) and node]
    if not objects:
        return
    node = objects[where % len(objects)]
    at = other % len(node)
    if how == "drop":
        del node[at]
    elif how == "twice":
        node.append([node[at][0], VALUES[where % len(VALUES)]])
    else:
        node[at][0] = NAMES[where % len(NAMES)]


GARBLED: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda text, at: text[: at % (len(text) + 1)],
    "begun": lambda text, at: text[at % (len(text) + 1) :],
    "nul": lambda text, at: text[: at % (len(text) + 1)] + b"\x00" + text[at % (len(text) + 1) :],
    "byte": lambda text, at: text[: at % (len(text) + 1)] + bytes([at % 256]) + text[at % (len(text) + 1) + 1 :],
    "bytes": lambda text, at: text[: at % (len(text) + 1)] + b"\xed\xa0\x80\xff" + text[at % (len(text) + 1) :],
    "bom": lambda text, _at: codecs.BOM_UTF8 + text,
    "twice": lambda text, _at: text + text,
    "several": lambda text, _at: text + b"\n" + text,
    "utf16": lambda text, at: text.decode("utf-8", "replace").encode("utf-16" if at % 2 else "utf-16-le"),
    "latin": lambda text, _at: text.decode("utf-8", "replace").encode("latin-1", "replace"),
    "gzip": lambda text, _at: gzip.compress(text, 1),
    "registry": lambda text, at: b"\x00" + (at % 2**16).to_bytes(4, "big") + text,
    "spaces": lambda text, _at: b" \r\t" + text.replace(b":", b" : ") + b" \n",
    "escaped": lambda text, _at: json.dumps(text.decode("utf-8", "replace")).encode(),
}
KINDS = ("odd", "odd", "drop", "twice", "rename", "swap", "wrap", "root")
CHANGES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 200), st.integers(0, len(VALUES) - 1)), max_size=3)
GARBLINGS = st.one_of(st.none(), st.none(), st.tuples(st.sampled_from(sorted(GARBLED)), st.integers(0, 3_000)))


def spoiled(message: Any, changes: list[tuple[str, int, int]], garbling: tuple[str, int] | None) -> bytes:
    """Return a message's bytes with some of its parts changed."""
    root = [tree(message)]
    for change in changes:
        spoil(root, *change)
    text = written(root[0]).encode("utf-8", "surrogatepass")
    return text if garbling is None else GARBLED[garbling[0]](text, garbling[1])


def messages(whole: list[Any]) -> st.SearchStrategy[bytes]:
    """Return the strategy of messages that are nearly like some whole ones."""
    return st.builds(spoiled, st.sampled_from(whole), CHANGES, GARBLINGS)
