"""TPC-C's consistency conditions, clause 3.3.2, over what a lake or a source shows: each tells where it does not hold.

The texts are the specification's (revision 5.11), shortened; ORDER is the table orders.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from public.tpc.tpcc import DELIVERED, ORDERS

Row = Mapping[str, Any]
Shown = Mapping[str, Mapping[Any, Row]]
Key = tuple[Any, ...]
ZERO = Decimal(0)


def sums(rows: Iterable[Row], by: str, column: str) -> dict[Key, Decimal]:
    """Sum a column by other columns."""
    totals: dict[Key, Decimal] = defaultdict(lambda: ZERO)
    for row in rows:
        totals[key(row, by)] += row[column]
    return totals


def numbers(rows: Iterable[Row], by: str, column: str) -> dict[Key, list[int]]:
    """List a column's values by other columns."""
    collected: dict[Key, list[int]] = defaultdict(list)
    for row in rows:
        collected[key(row, by)].append(row[column])
    return collected


def counts(rows: Iterable[Row], by: str) -> Counter[Key]:
    """Count rows by columns."""
    return Counter(key(row, by) for row in rows)


def key(row: Row, columns: str) -> Key:
    """Return the values of columns, whose names have blanks between them."""
    return tuple(row[column] for column in columns.split())


def delivered(shown: Shown) -> dict[Key, Decimal]:
    """Sum the amounts of delivered order lines by customer."""
    owners = {key(row, "o_w_id o_d_id o_id"): row["o_c_id"] for row in shown["orders"].values()}
    totals: dict[Key, Decimal] = defaultdict(lambda: ZERO)
    for row in shown["order_line"].values():
        if row["ol_delivery_d"] is not None:
            w, d, o = key(row, "ol_w_id ol_d_id ol_o_id")
            totals[w, d, owners.get((w, d, o))] += row["ol_amount"]
    return totals


def condition_1(shown: Shown) -> list[Key]:
    """3.3.2.1: W_YTD = sum(D_YTD) for each warehouse."""
    districts = sums(shown["district"].values(), "d_w_id", "d_ytd")
    return [key for key, row in shown["warehouse"].items() if row["w_ytd"] != districts[key]]


def condition_2(shown: Shown) -> list[Key]:
    """3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID) for each district.

    It does not apply to the NEW-ORDER table for districts that have no outstanding new orders.
    """
    entered = numbers(shown["orders"].values(), "o_w_id o_d_id", "o_id")
    waiting = numbers(shown["new_order"].values(), "no_w_id no_d_id", "no_o_id")
    return [
        chosen
        for chosen, row in shown["district"].items()
        if {row["d_next_o_id"] - 1}
        != {max(entered[chosen], default=0), *([max(waiting[chosen])] if waiting[chosen] else [])}
    ]


def condition_3(shown: Shown) -> list[Key]:
    """3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = the number of NEW-ORDER rows, for each district that has some."""
    waiting = numbers(shown["new_order"].values(), "no_w_id no_d_id", "no_o_id")
    return [key for key, orders in waiting.items() if max(orders) - min(orders) + 1 != len(orders)]


def condition_4(shown: Shown) -> list[Key]:
    """3.3.2.4: sum(O_OL_CNT) = the number of ORDER-LINE rows, for each district."""
    promised = sums(shown["orders"].values(), "o_w_id o_d_id", "o_ol_cnt")
    there = counts(shown["order_line"].values(), "ol_w_id ol_d_id")
    return [group for group in {*promised, *there, *shown["district"]} if promised.get(group, 0) != there[group]]


def condition_5(shown: Shown) -> list[Key]:
    """3.3.2.5: O_CARRIER_ID is null if and only if the order has a row in NEW-ORDER."""
    return [key for key, row in shown["orders"].items() if (row["o_carrier_id"] is None) != (key in shown["new_order"])]


def condition_6(shown: Shown) -> list[Key]:
    """3.3.2.6: O_OL_CNT = the number of the order's ORDER-LINE rows, for any order."""
    there = counts(shown["order_line"].values(), "ol_w_id ol_d_id ol_o_id")
    return [key for key, row in shown["orders"].items() if row["o_ol_cnt"] != there[key]]


def condition_7(shown: Shown) -> list[Key]:
    """3.3.2.7: OL_DELIVERY_D is null if and only if the line's order has a null O_CARRIER_ID."""
    waiting = {key: row["o_carrier_id"] is None for key, row in shown["orders"].items()}
    lines = shown["order_line"].items()
    return [key for key, row in lines if (row["ol_delivery_d"] is None) != waiting.get(key[:3])]


def condition_8(shown: Shown) -> list[Key]:
    """3.3.2.8: W_YTD = sum(H_AMOUNT) for each warehouse, by H_W_ID."""
    paid = sums(shown["history"].values(), "h_w_id", "h_amount")
    return [key for key, row in shown["warehouse"].items() if row["w_ytd"] != paid[key]]


def condition_9(shown: Shown) -> list[Key]:
    """3.3.2.9: D_YTD = sum(H_AMOUNT) for each district, by H_W_ID and H_D_ID."""
    paid = sums(shown["history"].values(), "h_w_id h_d_id", "h_amount")
    return [key for key, row in shown["district"].items() if row["d_ytd"] != paid[key]]


def condition_10(shown: Shown) -> list[Key]:
    """3.3.2.10: C_BALANCE = sum(OL_AMOUNT) of delivered lines - sum(H_AMOUNT), for each customer."""
    bought, paid = delivered(shown), sums(shown["history"].values(), "h_c_w_id h_c_d_id h_c_id", "h_amount")
    return [key for key, row in shown["customer"].items() if row["c_balance"] != bought[key] - paid[key]]


def condition_11(shown: Shown) -> list[Key]:
    """3.3.2.11: count of ORDER - count of NEW-ORDER = 2,100 (here: DELIVERED), for each district.

    As written it holds for the initial population: a delivery removes a row of NEW-ORDER and none of ORDER. From there
    on the difference grows with every delivery, and CUSTOMER, which the clause names too, counts them: C_DELIVERY_CNT.
    """
    entered = counts(shown["orders"].values(), "o_w_id o_d_id")
    waiting = counts(shown["new_order"].values(), "no_w_id no_d_id")
    since = sums(shown["customer"].values(), "c_w_id c_d_id", "c_delivery_cnt")
    return [group for group in shown["district"] if entered[group] - waiting[group] != DELIVERED + since[group]]


def condition_12(shown: Shown) -> list[Key]:
    """3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered lines, for any customer."""
    bought = delivered(shown)
    rows = shown["customer"].items()
    return [key for key, row in rows if row["c_balance"] + row["c_ytd_payment"] != bought[key]]


def stock(shown: Shown) -> list[Key]:
    """2.4.2.2: S_YTD, S_ORDER_CNT and S_REMOTE_CNT grow with every line of a new order; no condition looks at them.

    The initial population's orders, numbered up to ORDERS in each district, took nothing from stock.
    """
    lines = [row for row in shown["order_line"].values() if row["ol_o_id"] > ORDERS]
    where = "ol_supply_w_id ol_i_id"
    taken, times = sums(lines, where, "ol_quantity"), counts(lines, where)
    remote = counts((row for row in lines if row["ol_supply_w_id"] != row["ol_w_id"]), where)
    return [
        chosen
        for chosen, row in shown["stock"].items()
        if key(row, "s_ytd s_order_cnt s_remote_cnt") != (taken[chosen], times[chosen], remote[chosen])
    ]


CONDITIONS: dict[str, Callable[[Shown], list[Key]]] = {
    "3.3.2.1": condition_1,
    "3.3.2.2": condition_2,
    "3.3.2.3": condition_3,
    "3.3.2.4": condition_4,
    "3.3.2.5": condition_5,
    "3.3.2.6": condition_6,
    "3.3.2.7": condition_7,
    "3.3.2.8": condition_8,
    "3.3.2.9": condition_9,
    "3.3.2.10": condition_10,
    "3.3.2.11": condition_11,
    "3.3.2.12": condition_12,
    "2.4.2.2": stock,
}


def broken(shown: Shown) -> dict[str, list[Key]]:
    """Return, by clause, the keys for which a condition does not hold."""
    by_clause = {clause: condition(shown) for clause, condition in CONDITIONS.items()}
    return {clause: keys for clause, keys in by_clause.items() if keys}
