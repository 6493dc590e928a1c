"""Keys tied by key changes have one representative, others have none in common."""

from hypothesis import given
from hypothesis import strategies as st

from txloom.current.folding.components import components

EDGES = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=20)


def test_a_chain_has_one_representative() -> None:
    representatives = components([("b", "c"), ("a", "b"), ("x", "y")])
    assert len({representatives[key] for key in "abc"}) == 1
    assert representatives["x"] == representatives["y"] != representatives["a"]


def test_every_named_key_is_in_the_answer_and_no_other() -> None:
    assert components([(1, 1)]) == {1: 1}
    assert components([]) == {}


def test_the_representative_is_a_key_of_the_component() -> None:
    assert set(components([(("k", 1), ("k", 2))]).values()) <= {("k", 1), ("k", 2)}


def test_a_very_long_chain_is_no_matter_of_recursion() -> None:
    assert len(set(components((i + 1, i) for i in range(100_000)).values())) == 1


@given(EDGES)
def test_two_keys_share_a_representative_exactly_if_edges_connect_them(edges: list[tuple[int, int]]) -> None:
    reached = {key: {key} for edge in edges for key in edge}
    for _ in reached:
        for left, right in edges:
            for key in reached[left] | reached[right]:
                reached[key] = reached[key] | reached[left] | reached[right]
    representatives = components(edges)
    assert representatives.keys() == reached.keys()
    assert all(
        (representatives[left] == representatives[right]) == (right in reached[left])
        for left in representatives
        for right in representatives
    )
