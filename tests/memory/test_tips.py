"""A book of tips: FIFO, no duplicates, what a brute-force search finds, versions that name content."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentmem.memory.tips import Tip, TipBook, decode_key, encode_key

fast = settings(deadline=None, max_examples=100)
DIRECTIONS = [encode_key(row) for row in np.random.default_rng(3).normal(size=(8, 4))] + [
    encode_key([0.0] * 4)
]


def tip(text="look first", action="north", score=0.0, step=0, source="t:0", key=(1.0, 0.0)):
    key = key if isinstance(key, bytes) else encode_key(key)
    return Tip(text=text, action=action, score=score, step=step, source=source, key=key)


def numbered(count, **fields):
    return [tip(text=f"tip {i}", **fields) for i in range(count)]


some_tips = st.lists(
    st.builds(
        tip,
        text=st.sampled_from(["a", "b", "c", "d"]),
        action=st.sampled_from(["n", "s"]),
        score=st.sampled_from([-100.0, 0.0, 0.5, 1.0]),
        key=st.sampled_from(DIRECTIONS),
    ),
    max_size=30,
)
queries = st.lists(st.integers(-3, 3), min_size=4, max_size=4).filter(any)


def brute_force(tips, query, k, min_cosine):
    """Every rule as it is written down, in float64 and one after the other."""
    found = []
    for number, entry in enumerate(tips):
        vector = decode_key(entry.key).astype(float)
        if vector.any():
            cosine = vector @ query / (np.linalg.norm(vector) * np.linalg.norm(query))
            assume(abs(cosine - min_cosine) > 1e-6)
            if cosine > min_cosine:
                found.append((entry, cosine, number))
    best = {}
    for entry, _, number in found:
        best[entry.text] = max(best.get(entry.text, (-np.inf, 0)), (entry.score, number))
    order = sorted(best, key=lambda text: best[text], reverse=True)[:k]
    out = []
    for text in order:
        same = [x for x in found if x[0].text == text and x[0].score == best[text][0]]
        # Nearness up to rounding: the directions used here differ by more, or are the same.
        out.append(max(same, key=lambda x: (round(x[1], 9), x[2]))[0])
    return tuple(out)


@fast
@given(some_tips, queries, st.integers(1, 5), st.sampled_from([-0.2, 0.0, 0.5, 0.9]), st.integers(1, 12))
def test_recall_finds_what_a_brute_force_search_finds(tips, query, k, min_cosine, limit):
    book = TipBook("task", limit)
    book.add(tips)
    query = np.array(query, dtype=float)
    assert book.recall(query, k, min_cosine) == brute_force(book.tips, query, k, min_cosine)


@fast
@given(some_tips, st.integers(1, 6), st.integers(1, 5))
def test_adding_is_fifo_without_duplicates_however_it_is_split(tips, limit, chunk):
    book, held, total = TipBook("task", limit), [], 0
    for start in range(0, len(tips), chunk):
        for entry in tips[start : start + chunk]:
            if all(t.identity != entry.identity for t in held):
                held.append(entry)
                total += 1
        held = held[-limit:]
        assert book.add(tips[start : start + chunk]) == book.version == total
        assert book.tips == tuple(held)
        assert (len(book), book.first_kept) == (len(held), total - len(held) + 1)


@fast
@given(some_tips, queries, st.integers(1, 8), st.lists(st.integers(0, 30), max_size=6))
def test_a_snapshot_is_reproducible_from_the_log_up_to_its_version(tips, query, limit, stops):
    """A reader that follows in arbitrary steps, and one that comes late, see what the book showed then."""
    book, follower, log, seen = TipBook("task", limit), TipBook("task", limit), [], {}
    for i, entry in enumerate(tips):
        before = book.version
        book.add([entry])
        if book.version > before:
            log.append(entry)
        seen[book.snapshot] = (book.version, book.tips, book.recall(query, 3, 0.3))
        if i in stops:
            follower.follow(book.version, log[max(follower.version, book.first_kept - 1) :], book.first_kept)
            assert (follower.snapshot, follower.tips) == (book.snapshot, book.tips)
            assert follower.recall(query, 3, 0.3) == book.recall(query, 3, 0.3)
    for version, held, found in seen.values():
        late = TipBook("task", limit)
        late.follow(version, log[:version], max(1, version - limit + 1))
        assert (late.version, late.tips, late.recall(query, 3, 0.3)) == (version, held, found)


def test_the_threshold_is_decided_alike_wherever_a_row_lies():
    """Cosines within float32's rounding of the threshold, in books of different layouts."""
    rng = np.random.default_rng(0)
    query = rng.normal(size=384)
    keys = [encode_key(query + 0.5 * rng.normal(size=384)) for _ in range(300)]
    entries = [tip(text=f"tip {i}", key=key) for i, key in enumerate(keys)]
    q64 = query / np.linalg.norm(query)
    for i in range(0, 300, 7):
        row = decode_key(keys[i]).astype(np.float64)
        at = float((row / np.linalg.norm(row)).astype(np.float32).astype(np.float64) @ q64)
        for min_cosine in (np.nextafter(at, -1) - 1e-12, at + 1e-12):
            whole, alone = TipBook("t"), TipBook("t")
            whole.add(entries)
            alone.add(entries[i : i + 1])
            found = [entries[i] in book.recall(query, 300, min_cosine) for book in (whole, alone)]
            assert found == [min_cosine < at] * 2


def test_an_exact_duplicate_changes_nothing():
    book = TipBook("task")
    assert book.add([tip(score=0.0), tip(score=0.0, step=3, source="u:1")]) == 1
    assert [t.source for t in book.tips] != ["u:1"]
    assert book.add([tip(action="south"), tip(text="other"), tip(key=(0.0, 1.0))]) == 4


def test_a_tip_that_leads_to_success_later_ranks_by_its_success():
    book = TipBook("task")
    book.add([tip(text="old", score=0.0), tip(text="new", score=0.5), tip(text="old", score=1.0)])
    assert [(t.text, t.score) for t in book.recall([1.0, 0.0])] == [("old", 1.0), ("new", 0.5)]


def test_what_was_dropped_may_come_again():
    book = TipBook("task", limit=2)
    book.add(numbered(3))
    assert book.add([tip(text="tip 0")]) == 4
    assert [t.text for t in book.tips] == ["tip 2", "tip 0"]


def test_the_ten_best_come_by_score_and_of_equal_ones_the_newest():
    book = TipBook("task")
    book.add([tip(text=f"tip {i}", score=float(i % 3)) for i in range(30)])
    found = [t.text for t in book.recall([1.0, 0.0])]
    assert found == [f"tip {i}" for i in (29, 26, 23, 20, 17, 14, 11, 8, 5, 2)]


def test_a_text_of_many_steps_is_told_once_with_the_action_of_the_nearest_state():
    def at(degrees):
        return (np.cos(np.radians(degrees)), np.sin(np.radians(degrees)))

    book = TipBook("task")
    book.add([tip(action=f"step {i}", step=i, key=at(20 * i)) for i in range(4)])
    assert [t.action for t in book.recall(at(21))] == ["step 1"]
    assert [t.action for t in book.recall(at(55))] == ["step 3"]


def test_the_nearest_state_of_the_last_text_is_found_behind_other_texts():
    book = TipBook("task")
    book.add([tip(action="nearest"), tip(text="other", key=(1.0, 0.5)), tip(action="newest", key=(1.0, 0.5))])
    assert [t.action for t in book.recall([1.0, 0.0], k=1)] == ["nearest"]


def test_states_nearer_to_each_other_than_float32_can_tell_are_told_apart():
    book = TipBook("task")
    book.add([tip(action="nearest"), tip(action="near", key=(1.0, 0.002)), tip(action="far", key=(1.0, 1.0))])
    assert [t.action for t in book.recall([1.0, 0.0])] == ["nearest"]


def test_a_cosine_of_exactly_the_threshold_is_not_enough():
    book = TipBook("task")
    book.add([tip(key=(0.0, 1.0))])
    assert book.recall([1.0, 0.0], min_cosine=0.0) == ()
    assert len(book.recall([1.0, 0.0], min_cosine=-0.1)) == 1


def test_an_empty_state_is_never_recalled_and_recalls_nothing():
    book = TipBook("task")
    book.add([tip(text="of an empty state", key=(0.0, 0.0)), tip()])
    assert book.recall([0.0, 0.0], min_cosine=-1.0) == ()
    assert [t.text for t in book.recall([1.0, 0.0], min_cosine=-1.0)] == ["look first"]
    assert TipBook("task").recall([1.0, 0.0]) == ()
    assert book.recall([1.0, 0.0], k=0) == ()


def test_what_is_no_tip_is_refused():
    with pytest.raises(ValueError, match="a tip of t:0 has no text"):
        tip(text=" \n")
    for score in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be finite"):
            tip(score=score)
    with pytest.raises(ValueError, match="non-finite"):
        encode_key([1.0, float("nan")])
    with pytest.raises(ValueError, match="key with a non-finite number"):
        tip(key=np.array([np.inf], dtype="<f2").tobytes())
    for key in (b"", b"abc"):
        with pytest.raises(ValueError, match="key of"):
            tip(key=key)
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        encode_key([[1.0, 0.0]])


def test_a_large_embedding_does_not_overflow_its_key():
    np.testing.assert_allclose(decode_key(encode_key([3e8, 4e8])), [0.6, 0.8], atol=1e-3)


def test_a_wrong_dimension_is_refused_and_nothing_is_added():
    book = TipBook("task")
    book.add([tip()])
    for wrong in ([tip(text="new"), tip(key=(1.0, 0.0, 0.0))], [tip(key=(1.0,))]):
        with pytest.raises(ValueError, match="those of task have 2"):
            book.add(wrong)
    assert book.version == len(book) == 1
    with pytest.raises(ValueError, match=r"a query of shape \(3,\); the tips of task have keys of 2"):
        book.recall([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="non-finite"):
        book.recall([1.0, float("nan")])
    with pytest.raises(ValueError, match="limit is 0"):
        TipBook("task", 0)


def test_a_reader_with_a_hole_in_its_log_is_told():
    book = TipBook("task")
    entries = numbered(9)
    book.follow(3, entries[:3], 1)
    with pytest.raises(ValueError, match="entries 4 to 5 of the log are missing"):
        book.follow(9, entries[5:], 2)
    assert (book.version, len(book)) == (3, 3)
    book.follow(9, entries[3:], 2)
    assert [t.text for t in book.tips] == [f"tip {i}" for i in range(1, 9)]


def test_a_reader_follows_a_log_that_dropped_all_it_knew_or_was_begun_anew():
    book = TipBook("task")
    book.follow(3, numbered(3), 1)
    book.follow(9, [tip(text="new", key=(1.0, 0.0, 0.0))], 9)  # the log may have another embedder now
    assert ([t.text for t in book.tips], book.first_kept) == (["new"], 9)
    assert book.recall([1.0, 0.0, 0.0]) == book.tips
    book.follow(12, [], 13)
    assert (len(book), book.version, book.snapshot) == (0, 12, "task@12")
    book.follow(2, numbered(2), 1)  # behind the book: another log
    assert (len(book), book.version) == (2, 2)
    assert book.add(numbered(3)) == 3
