"""Parts of a declaration that do not fit each other, each with its whole message."""

from collections.abc import Callable

Refused = Callable[..., str]


def test_a_key_column_that_is_not_declared_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: [ordr_id]") == (
        "shop.yaml:18: tables[0].key[0]: found 'ordr_id', expected a declared column of orders. Did you "
        "mean 'order_id'?"
    )


def test_a_key_column_in_another_case_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: [ORDER_ID]") == (
        "shop.yaml:18: tables[0].key[0]: found 'ORDER_ID', expected a declared column of orders. Did you"
        " mean 'order_id'?"
    )


def test_a_key_column_counts_once(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: [order_id, order_id]") == (
        "shop.yaml:18: tables[0].key[1]: found 'order_id' again, expected each column once."
    )


def test_an_array_is_no_key(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: [tags]") == (
        "shop.yaml:18: tables[0].key[0]: found 'tags' of type array<string>, expected a column that can "
        "be a key, not array, json, double or float."
    )


def test_a_floating_number_is_no_key(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: double") == (
        "shop.yaml:18: tables[0].key[0]: found 'order_id' of type double, expected a column that can be "
        "a key, not array, json, double or float."
    )


def test_a_version_column_that_is_not_declared_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("version: item_no", "version: itemno") == (
        "shop.yaml:26: tables[1].version: found 'itemno', expected a declared column of items. Did you mean 'item_no'?"
    )


def test_a_column_is_declared_once_even_in_another_case(refused: Refused) -> None:
    assert refused("tags: array", "Order_ID: long\n      tags: array") == (
        "shop.yaml:17: tables[0].columns.Order_ID: found the column 'Order_ID' beside 'order_id', "
        "expected names that differ by more than case."
    )


def test_two_columns_do_not_read_one_source_column(refused: Refused) -> None:
    assert refused("tags: array<string>", "tags: {type: array<string>, source: Order_Id}") == (
        "shop.yaml:17: tables[0].columns.tags.source: found the source column 'Order_Id' again, expected"
        " one column for each source column. The column order_id reads it."
    )


def test_two_tables_do_not_share_a_name(refused: Refused) -> None:
    assert refused(
        "name: items",
        "name: Orders",
        ("table: items", "table: Orders"),
        ("    - table: items\n      zorder: [item_no]\n", ""),
        ("child: items", "child: Orders"),
    ) == (
        "shop.yaml:19: tables[1].name: found 'Orders', expected a name that no other table has. "
        "tables[0].name in line 12 has it.\n"
        "shop.yaml:32: targets.aggregates[0].children[0].table: found 'Orders', expected a field that "
        "the document does not have yet. The root has this name; give the child another one with `as`."
    )


def test_two_tables_do_not_share_a_source(refused: Refused) -> None:
    assert refused("PUBLIC.ITEMS", "public.orders") == (
        "shop.yaml:20: tables[1].source: found 'public.orders', expected a source that no other table "
        "has. tables[0].source in line 13 has it."
    )


def test_two_tables_do_not_share_a_short_source_name(refused: Refused) -> None:
    assert refused("PUBLIC.ITEMS", "SALES.ORDERS") == (
        "shop.yaml:20: tables[1].source: found 'SALES.ORDERS' beside 'PUBLIC.ORDERS', expected tables "
        "whose short names differ. GoldenGate's metadata counts events by short name: completeness could"
        " not tell them apart."
    )


def test_a_root_that_is_not_watched_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("root: orders", "root: order") == (
        "shop.yaml:30: targets.aggregates[0].root: found 'order', expected a watched table. Did you mean 'orders'?"
    )


def test_a_child_that_is_not_watched_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("table: items\n          rel", "table: item\n          rel") == (
        "shop.yaml:32: targets.aggregates[0].children[0].table: found 'item', expected a watched table. "
        "Did you mean 'items'?"
    )


def test_a_child_is_not_its_own_root(refused: Refused) -> None:
    assert refused("table: items\n          rel", "table: orders\n          rel") == (
        "shop.yaml:32: targets.aggregates[0].children[0].table: found 'orders', expected another table than the root."
    )


def test_a_child_comes_once_in_an_aggregate(refused: Refused) -> None:
    assert refused(
        "      children:\n",
        "      children:\n        - {table: items, as: more, relation: one, parent_key: [order_id]}\n",
    ) == (
        "shop.yaml:33: targets.aggregates[0].children[1].table: found 'items' again, expected each table"
        " once in an aggregate."
    )


def test_a_parent_key_is_as_long_as_the_roots_key(refused: Refused) -> None:
    assert refused("parent_key: [order_id]", "parent_key: [order_id, item_no]") == (
        "shop.yaml:34: targets.aggregates[0].children[0].parent_key: found 2 columns, expected 1 column "
        "for the key of orders (order_id)."
    )


def test_a_parent_key_is_made_of_declared_columns(refused: Refused) -> None:
    assert refused("parent_key: [order_id]", "parent_key: [orderid]") == (
        "shop.yaml:34: targets.aggregates[0].children[0].parent_key[0]: found 'orderid', expected a "
        "declared column of items. Did you mean 'order_id'?"
    )


def test_a_parent_key_has_the_types_of_the_roots_key(refused: Refused) -> None:
    assert refused("parent_key: [order_id]", "parent_key: [item_no]") == (
        "shop.yaml:34: targets.aggregates[0].children[0].parent_key[0]: found 'item_no' of type int, "
        "expected type long, as order_id of orders has."
    )


def test_a_childs_field_is_no_column_of_the_root(refused: Refused) -> None:
    assert refused("- table: items\n          rel", "- table: items\n          as: tags\n          rel") == (
        "shop.yaml:33: targets.aggregates[0].children[0].as: found 'tags', expected a field that the "
        "document does not have yet. A column of orders has this name; give the child another one with "
        "`as`."
    )


def test_a_childs_field_is_not_named_like_the_root(refused: Refused) -> None:
    assert refused("- table: items\n          rel", "- table: items\n          as: orders\n          rel") == (
        "shop.yaml:33: targets.aggregates[0].children[0].as: found 'orders', expected a field that the "
        "document does not have yet. The root has this name; give the child another one with `as`."
    )


def test_a_root_is_not_named_like_its_key(refused: Refused) -> None:
    assert refused(
        "name: orders",
        "name: order_id",
        ("root: orders", "root: order_id"),
        ("- orders", "- order_id"),
        ("parent: orders", "parent: order_id"),
    ) == (
        "shop.yaml:30: targets.aggregates[0].root: found 'order_id', expected a root that is not named "
        "like one of its key columns. The aggregate's history has a field for the root and one for each "
        "of its key columns."
    )


def test_two_aggregates_do_not_share_a_name(refused: Refused) -> None:
    assert refused("  aggregates:\n", "  aggregates:\n    - name: basket\n      root: items\n") == (
        "shop.yaml:31: targets.aggregates[1].name: found 'basket', expected a name that no other "
        "aggregate has. targets.aggregates[0].name in line 29 has it."
    )


def test_a_mirror_of_an_unknown_table_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("    - orders", "    - ordres") == (
        "shop.yaml:36: targets.mirrors[0]: found 'ordres', expected a watched table. Did you mean 'orders'?"
    )


def test_a_table_is_mirrored_once(refused: Refused) -> None:
    assert refused("    - orders", "    - orders\n    - orders") == (
        "shop.yaml:37: targets.mirrors[1]: found 'orders' again, expected each table mirrored once."
    )


def test_a_pattern_of_mirrors_matches_a_table(refused: Refused) -> None:
    assert refused("    - orders", '    - "order?*s_*"') == (
        "shop.yaml:36: targets.mirrors[0]: found 'order?*s_*', expected a pattern that a watched table matches."
    )


def test_a_target_is_not_named_like_one_of_our_own_tables(refused: Refused) -> None:
    assert refused("      root: orders", "      history: change_events\n      root: orders") == (
        "shop.yaml:30: targets.aggregates[0].history: found the table 'change_events', expected a name "
        "that is not one of txloom's own tables. Give it another name with `history`."
    )


def test_a_mirror_is_not_named_like_one_of_our_own_tables(refused: Refused) -> None:
    assert refused(
        "name: orders",
        "name: ledger",
        ("root: orders", "root: ledger"),
        ("- orders", "- ledger"),
        ("parent: orders", "parent: ledger"),
    ) == (
        "shop.yaml:36: targets.mirrors[0]: found the table 'ledger', expected a name that is not one of "
        "txloom's own tables. Give it another name with `current`."
    )


def test_two_targets_do_not_write_one_table(refused: Refused) -> None:
    assert refused("      root: orders", "      current: items_changes\n      root: orders") == (
        "shop.yaml:38: targets.mirrors[1].table: found the table 'items_changes', expected a table that "
        "nothing else writes. targets.aggregates[0].current in line 30 has it. Give it another name with"
        " `history`."
    )


def test_an_aggregate_and_a_mirror_do_not_write_one_table(refused: Refused) -> None:
    assert refused("\n    - table: items", "\n    - table: items\n      current: BASKET_current") == (
        "shop.yaml:38: targets.mirrors[1].current: found the table 'BASKET_current', expected a table "
        "that nothing else writes. targets.aggregates[0].name in line 29 has it. Give it another name "
        "with `current`."
    )


def test_a_column_to_cluster_by_is_declared(refused: Refused) -> None:
    assert refused("zorder: [item_no]", "zorder: [itm_no]") == (
        "shop.yaml:38: targets.mirrors[1].zorder[0]: found 'itm_no', expected a declared column of "
        "items. Did you mean 'item_no'?"
    )


def test_an_array_does_not_cluster(refused: Refused) -> None:
    assert refused("      root: orders", "      root: orders\n      zorder: [tags]") == (
        "shop.yaml:31: targets.aggregates[0].zorder[0]: found 'tags' of type array<string> in "
        "orders, expected a column to cluster by, not array, json, binary or boolean."
    )


def test_a_column_to_partition_by_is_declared(refused: Refused) -> None:
    assert refused("zorder: [item_no]", "partition_by: prize") == (
        "shop.yaml:38: targets.mirrors[1].partition_by: found 'prize', expected a declared column of "
        "items. Did you mean 'price'?"
    )


def test_a_column_to_partition_by_has_a_plain_type(refused: Refused) -> None:
    assert refused("    - orders", "    - table: orders\n      partition_by: tags") == (
        "shop.yaml:37: targets.mirrors[0].partition_by: found 'tags' of type array<string> in "
        "orders, expected a column to partition by, not array, json, double, float, decimal or binary."
    )


def test_a_decimal_partitions_nothing_and_a_table_that_lies_by_one_is_written_anew(refused: Refused) -> None:
    """The partition of -0.5 would be named `0.-5000`, and no reader could open the table any more."""
    assert refused("zorder: [item_no]", "partition_by: price") == (
        "shop.yaml:38: targets.mirrors[1].partition_by: found 'price' of type decimal(20,4) in "
        "items, expected a column to partition by, not array, json, double, float, decimal or binary. "
        "Where a table lies by a decimal already, take partition_by out and move the folder of the current table "
        "away: the next merge writes it anew out of its history."
    )


def test_a_table_does_not_cluster_by_its_partition(refused: Refused) -> None:
    assert refused("zorder: [item_no]", "zorder: [item_no]\n      partition_by: item_no") == (
        "shop.yaml:38: targets.mirrors[1].zorder[0]: found 'item_no', expected another column than the "
        "one it is partitioned by."
    )


def test_an_expectation_looks_at_watched_tables(refused: Refused) -> None:
    assert refused("child: items", "child: itmes") == (
        "shop.yaml:42: expectations[0].child: found 'itmes', expected a watched table. Did you mean 'items'?"
    )


def test_an_expectation_looks_at_tables_that_are_written(refused: Refused) -> None:
    assert refused(
        "    - orders\n    - table: items\n      zorder: [item_no]",
        "    - orders",
        ("      children:\n        - table: items\n          relation: many\n          parent_key: [order_id]\n", ""),
    ) == (
        "shop.yaml:36: expectations[0].child: found 'items', expected a table that a target writes. Add "
        "it to targets.mirrors."
    )


def test_an_expectations_parent_key_fits_the_parent(refused: Refused) -> None:
    assert refused("    parent_key: [order_id]\n    sev", "    parent_key: [order_id, item_no]\n    sev") == (
        "shop.yaml:44: expectations[0].parent_key: found 2 columns, expected 1 column for the key of orders (order_id)."
    )


def test_two_expectations_do_not_share_an_id(refused: Refused) -> None:
    assert refused("id: stuck", "id: orphan_items") == (
        "shop.yaml:49: expectations[1].id: found 'orphan_items', expected an id that no other "
        "expectation has. expectations[0].id in line 41 has it."
    )


def test_a_transaction_is_stuck_before_patience_runs_out(refused: Refused) -> None:
    assert refused("older_than: 10m", "older_than: 30m") == (
        "shop.yaml:50: expectations[1].older_than: found '30m', expected less than completeness.patience"
        " (30m). A transaction that waits longer has become dead letters: this expectation could never "
        "fail."
    )


def test_nothing_is_said_of_what_refers_to_a_refused_key(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: [order_id, 5]") == (
        "shop.yaml:18: tables[0].key[1]: found 5, expected a name of letters, digits and underscores."
    )


def test_a_table_without_a_name_is_named_by_its_place(refused: Refused) -> None:
    assert refused("  - name: items\n    source", "  - source", ("version: item_no", "version: itemno")) == (
        "shop.yaml:19: tables[1].name: found nothing, expected the name in the lake, or several as a list or a range "
        "such as t_{01..65}.\n"
        "shop.yaml:25: tables[1].version: found 'itemno', expected a declared column of tables[1]. "
        "Did you mean 'item_no'?"
    )


def test_a_hostile_name_is_quoted_wherever_it_is_told(refused: Refused) -> None:
    assert refused("name: items", 'name: "it\\nems\\u202e"', ("version: item_no", "version: itemno")) == (
        "shop.yaml:19: tables[1].name: found 'it\\nems\\u202e', expected a name of letters, digits and underscores, "
        "beginning with a letter.\n"
        "shop.yaml:26: tables[1].version: found 'itemno', expected a declared column of 'it\\nems\\u202e'. "
        "Did you mean 'item_no'?"
    )


def test_nothing_is_said_of_options_inside_of_mirrors_that_are_no_list(refused: Refused) -> None:
    mirrors = "    - orders\n    - table: items\n      zorder: [item_no]"
    assert refused(mirrors, "    items: {table: items, partition_by: hour(item_no)}") == (
        "shop.yaml:35: targets.mirrors: found a mapping, expected a list."
    )


def test_an_aggregate_without_a_name_takes_no_name_from_another_target(refused: Refused) -> None:
    assert refused("    - name: basket\n      root", "    - root") == (
        "shop.yaml:29: targets.aggregates[0].name: found nothing, expected the name of the aggregate."
    )


def test_a_target_with_a_refused_name_does_not_go_by_its_default(refused: Refused) -> None:
    mirrored = ("    - table: items\n      zorder", "    - table: items\n      current: basket_current\n      zorder")
    assert refused("      root: orders", "      current: basket-current\n      root: orders", mirrored) == (
        "shop.yaml:30: targets.aggregates[0].current: found 'basket-current', expected a name of letters, digits and "
        "underscores, beginning with a letter."
    )


def test_nothing_is_added_to_mirrors_that_are_refused(refused: Refused) -> None:
    aggregate = "    - name: basket\n      root: orders\n      children:\n"
    child = "        - table: items\n          relation: many\n          parent_key: [order_id]\n"
    mirrors = "  mirrors:\n    - orders\n    - table: items\n      zorder: [item_no]"
    assert refused(f"  aggregates:\n{aggregate}{child}{mirrors}", '  mirrors: "*"') == (
        "shop.yaml:28: targets.mirrors: found '*', expected a list. Write [\"*\"]."
    )
