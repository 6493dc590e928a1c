"""TPC-C at a tiny scale, played in plain Python: new-order, payment and delivery over its nine tables.

Rows are populated as clause 4.3.3.1 says, with fewer of each; HISTORY, which has no primary key, gets a number, `h_id`.
ORDER is called orders here, as the word is SQL's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from random import Random

from oracle.declarations import Aggregate, Child
from public.source import Source, source_of, table

WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS = 2, 2, 10, 20
"""TPC-C has 10 districts a warehouse, 3,000 customers a district, and 100,000 items."""
ORDERS, DELIVERED = 10, 7
"""Initial orders of a district, one for each customer, and how many of them are delivered; TPC-C: 3,000 and 2,100."""
MONEY = "decimal(12,2)"


def whole(columns: str) -> dict[str, str]:
    """Declare columns of whole numbers; their names have blanks between them."""
    return dict.fromkeys(columns.split(), "int")


TABLES = (
    table("warehouse", "w_id", w_id="int", w_name="string", w_ytd=MONEY),
    table("district", "d_w_id d_id", **whole("d_w_id d_id d_next_o_id"), d_name="string", d_ytd=MONEY),
    table(
        *("customer", "c_w_id c_d_id c_id"),
        **whole("c_w_id c_d_id c_id c_payment_cnt c_delivery_cnt"),
        **dict.fromkeys(("c_last", "c_credit", "c_data"), "string"),
        c_balance=MONEY,
        c_ytd_payment=MONEY,
    ),
    table(
        *("history", "h_id"),
        **whole("h_id h_c_id h_c_d_id h_c_w_id h_d_id h_w_id"),
        h_date="timestamp",
        h_amount=MONEY,
        h_data="string",
    ),
    table("new_order", "no_w_id no_d_id no_o_id", **whole("no_w_id no_d_id no_o_id")),
    table(
        *("orders", "o_w_id o_d_id o_id"),
        **whole("o_w_id o_d_id o_id o_c_id o_carrier_id o_ol_cnt o_all_local"),
        o_entry_d="timestamp",
    ),
    table(
        *("order_line", "ol_w_id ol_d_id ol_o_id ol_number"),
        **whole("ol_w_id ol_d_id ol_o_id ol_number ol_i_id ol_supply_w_id ol_quantity"),
        ol_delivery_d="timestamp",
        ol_amount=MONEY,
    ),
    table("item", "i_id", i_id="int", i_name="string", i_price=MONEY),
    table("stock", "s_w_id s_i_id", **whole("s_w_id s_i_id s_quantity s_ytd s_order_cnt s_remote_cnt")),
)
ORDER = Aggregate(
    "doc",
    "orders",
    (
        Child("new_order", "new_order", "one", ("no_w_id", "no_d_id", "no_o_id")),
        Child("order_line", "lines", "many", ("ol_w_id", "ol_d_id", "ol_o_id")),
    ),
)
PLACES = [(w, d) for w in range(1, WAREHOUSES + 1) for d in range(1, DISTRICTS + 1)]


@dataclass
class Terminal:
    """Plays transactions on a source; `kinds` says what each commit was."""

    chance: Random
    source: Source = field(default_factory=lambda: source_of(*TABLES, aggregate=ORDER))
    kinds: list[str] = field(default_factory=list)
    _payments: Iterator[int] = field(default_factory=lambda: count(1))
    _seconds: Iterator[int] = field(default_factory=count)

    def populate(self) -> None:
        """Load the initial rows in one transaction (clause 4.3.3.1)."""
        for item in range(1, ITEMS + 1):
            self.source.insert("item", i_id=item, i_name=f"item {item}", i_price=self._money(100, 10_000))
        for w in range(1, WAREHOUSES + 1):
            self.source.insert("warehouse", w_id=w, w_name=f"w{w}", w_ytd=Decimal("10.00") * DISTRICTS * CUSTOMERS)
            for item in range(1, ITEMS + 1):
                counters = dict.fromkeys(("s_ytd", "s_order_cnt", "s_remote_cnt"), 0)
                self.source.insert("stock", s_w_id=w, s_i_id=item, s_quantity=self.chance.randint(10, 100), **counters)
        for w, d in PLACES:
            self._populate_district(w, d)
        self._commit("population")

    def _populate_district(self, w: int, d: int) -> None:
        ytd = Decimal("10.00") * CUSTOMERS
        self.source.insert("district", d_w_id=w, d_id=d, d_name=f"d{d}", d_ytd=ytd, d_next_o_id=ORDERS + 1)
        for c in range(1, CUSTOMERS + 1):
            credit = "BC" if self.chance.random() < 0.1 else "GC"
            paid = {"c_balance": Decimal("-10.00"), "c_ytd_payment": Decimal("10.00"), "c_payment_cnt": 1}
            names = {"c_last": f"BAR{c}", "c_credit": credit, "c_data": "data"}
            self.source.insert("customer", c_w_id=w, c_d_id=d, c_id=c, c_delivery_cnt=0, **names, **paid)
            self._history((w, d, c), (w, d), Decimal("10.00"))
        for o, c in enumerate(self.chance.sample(range(1, CUSTOMERS + 1), CUSTOMERS), 1):
            self._populate_order(w, d, o, c)

    def _populate_order(self, w: int, d: int, o: int, c: int) -> None:
        delivered, now, lines = o <= DELIVERED, self._now(), self.chance.randint(5, 15)
        carrier = self.chance.randint(1, 10) if delivered else None
        more = {"o_carrier_id": carrier, "o_ol_cnt": lines, "o_all_local": 1, "o_entry_d": now}
        self.source.insert("orders", o_w_id=w, o_d_id=d, o_id=o, o_c_id=c, **more)
        for number in range(1, lines + 1):
            amount = Decimal("0.00") if delivered else self._money(1, 999_999)
            line_values = {"ol_delivery_d": now if delivered else None, "ol_quantity": 5, "ol_amount": amount}
            self._line((w, d, o, number), self.chance.randint(1, ITEMS), w, **line_values)
        if not delivered:
            self.source.insert("new_order", no_w_id=w, no_d_id=d, no_o_id=o)

    def play(self, transactions: int) -> None:
        """Commit a number of transactions, more deliveries among them than clause 5.2.3 asks for."""
        while len(self.kinds) < transactions + 1:
            kind = self.chance.choices(("new-order", "payment", "delivery"), (45, 43, 12))[0]
            if {"new-order": self._new_order, "payment": self._payment, "delivery": self._delivery}[kind]():
                self._commit(kind)

    def _new_order(self) -> bool:
        """Enter an order (clause 2.4.2.2); one in a hundred is rolled back and sends nothing."""
        w, d = self.chance.choice(PLACES)
        lines = self.chance.randint(5, 15)
        if self.chance.random() < 0.01:
            return False
        o = self.source.rows["district"][w, d]["d_next_o_id"]
        supplies = [self._other(w) if self.chance.random() < 0.1 else w for _ in range(lines)]
        self.source.update("district", (w, d), d_next_o_id=o + 1)
        more = {"o_ol_cnt": lines, "o_all_local": int(set(supplies) == {w}), "o_entry_d": self._now()}
        self.source.insert("orders", o_w_id=w, o_d_id=d, o_id=o, o_c_id=self._customer(), **more)
        self.source.insert("new_order", no_w_id=w, no_d_id=d, no_o_id=o)
        for number, supply in enumerate(supplies, 1):
            item, quantity = self.chance.randint(1, ITEMS), self.chance.randint(1, 10)
            self._take_from_stock(supply, item, quantity, remote=supply != w)
            amount = quantity * self.source.rows["item"][item,]["i_price"]
            self._line((w, d, o, number), item, supply, ol_delivery_d=None, ol_quantity=quantity, ol_amount=amount)
        return True

    def _take_from_stock(self, w: int, item: int, quantity: int, *, remote: bool) -> None:
        stock = self.source.rows["stock"][w, item]
        left = stock["s_quantity"] - quantity
        self.source.update(
            *("stock", (w, item)),
            s_quantity=left if left >= 10 else left + 91,
            s_ytd=stock["s_ytd"] + quantity,
            s_order_cnt=stock["s_order_cnt"] + 1,
            s_remote_cnt=stock["s_remote_cnt"] + remote,
        )

    def _payment(self) -> bool:
        """Take a customer's payment, sometimes in another warehouse (clause 2.5.2.2)."""
        w, d = self.chance.choice(PLACES)
        home = (
            self.chance.choice([position for position in PLACES if position[0] != w])
            if self.chance.random() < 0.15
            else (w, d)
        )
        key, amount = (*home, self._customer()), self._money(100, 500_000)
        customer = self.source.rows["customer"][key]
        data = f"{key} {amount} {customer['c_data']}"[:500] if customer["c_credit"] == "BC" else customer["c_data"]
        self.source.update("warehouse", (w,), w_ytd=self.source.rows["warehouse"][w,]["w_ytd"] + amount)
        self.source.update("district", (w, d), d_ytd=self.source.rows["district"][w, d]["d_ytd"] + amount)
        self.source.update(
            *("customer", key),
            c_balance=customer["c_balance"] - amount,
            c_ytd_payment=customer["c_ytd_payment"] + amount,
            c_payment_cnt=customer["c_payment_cnt"] + 1,
            c_data=data,
        )
        self._history(key, (w, d), amount)
        return True

    def _delivery(self) -> bool:
        """Deliver the oldest new order of each district of a warehouse (clause 2.7.4.2)."""
        w, carrier, now = self.chance.randint(1, WAREHOUSES), self.chance.randint(1, 10), self._now()
        delivered = False
        for d in range(1, DISTRICTS + 1):
            waiting = [key for key in self.source.rows["new_order"] if key[:2] == (w, d)]
            if waiting:
                self._deliver(min(waiting), carrier, now)
                delivered = True
        return delivered

    def _deliver(self, key: tuple[int, ...], carrier: int, now: str) -> None:
        w, d, _ = key
        self.source.delete("new_order", key)
        self.source.update("orders", key, o_carrier_id=carrier)
        lines = [line for line in self.source.rows["order_line"] if line[:3] == key]
        for line in lines:
            self.source.update("order_line", line, ol_delivery_d=now)
        total = sum((self.source.rows["order_line"][line]["ol_amount"] for line in lines), Decimal(0))
        owner = (w, d, self.source.rows["orders"][key]["o_c_id"])
        customer = self.source.rows["customer"][owner]
        counted = customer["c_delivery_cnt"] + 1
        self.source.update("customer", owner, c_balance=customer["c_balance"] + total, c_delivery_cnt=counted)

    def _line(self, key: tuple[int, int, int, int], item: int, supply: int, **values: object) -> None:
        key_columns = dict(zip(("ol_w_id", "ol_d_id", "ol_o_id", "ol_number"), key, strict=True))
        self.source.insert("order_line", **key_columns, ol_i_id=item, ol_supply_w_id=supply, **values)

    def _history(self, customer: tuple[int, ...], where: tuple[int, int], amount: Decimal) -> None:
        key_columns = dict(
            zip(("h_c_w_id", "h_c_d_id", "h_c_id", "h_w_id", "h_d_id"), (*customer, *where), strict=True)
        )
        more = {"h_date": self._now(), "h_amount": amount, "h_data": "w  d"}
        self.source.insert("history", h_id=next(self._payments), **key_columns, **more)

    def _commit(self, kind: str) -> None:
        self.source.commit()
        self.kinds.append(kind)

    def _customer(self) -> int:
        return self.chance.randint(1, CUSTOMERS)

    def _other(self, w: int) -> int:
        return self.chance.choice([other for other in range(1, WAREHOUSES + 1) if other != w])

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(self.chance.randint(low, high)).scaleb(-2)

    def _now(self) -> str:
        minutes, seconds = divmod(next(self._seconds), 60)
        return f"2026-01-01 {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
