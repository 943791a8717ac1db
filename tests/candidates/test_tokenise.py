from __future__ import annotations

import pytest

from instruct_distill.candidates.tokenise import Tokeniser
from instruct_distill.errors import InputError

PLAIN = Tokeniser(stemmer=None, stop_words="none")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Blue, KITE!", ["blue", "kite"]),
        ("vitamin C", ["vitamin", "c"]),
        ("5 G", ["5", "g"]),
        ("covid-19 snake_case", ["covid", "19", "snake", "case"]),
        ("the host's don't", ["the", "host", "don", "t"]),
        ("the host\u2019s", ["the", "host"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("İstanbul ISTANBUL i\u0307stanbul", ["istanbul"] * 3),
        ("caf\u00e9 cafe\u0301 CAFÉ", ["café"] * 3),
        ("Ｃ ﬁne straße", ["c", "fine", "strasse"]),
        ("hy\u00adphen", ["hyphen"]),
        ("天気", ["天", "気", "天気"]),
        ("iPhone15を", ["iphone15", "を"]),
        # NFKC takes the vowel am apart into a mark, which stays with its consonant, and aa.
        ("ก\u0e33", ["ก\u0e4d", "า", "ก\u0e4dา"]),
        ("!? \u2764\ufe0f", []),
        ("", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert PLAIN(text) == terms


def test_ascii_and_other_text_are_cut_alike() -> None:
    text = "The host's 2 cats (o'clock) x_y 3.5 A-1"
    assert PLAIN(text + " é")[:-1] == PLAIN(text)


def test_stop_words_go_before_stemming() -> None:
    assert Tokeniser()("What is the Running of bicycles being?") == ["run", "bicycl"]
    assert Tokeniser(stop_words="none")("is the running") == ["is", "the", "run"]
    assert Tokeniser(stemmer="german")("Häuser") == ["haus"]


def test_b04_no_single_letter_or_digit_is_lost() -> None:
    letters = list("bcdefghjklmnopqrstuvwxyz0123456789")
    assert Tokeniser()(" ".join(letters)) == letters


def test_stored_and_read_back() -> None:
    tokeniser = Tokeniser(stemmer=None, stop_words="none")
    assert Tokeniser.from_dict(tokeniser.as_dict()) == tokeniser


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown stemmer 'englsh'; did you mean 'english'"):
        Tokeniser(stemmer="englsh")
    with pytest.raises(InputError, match="unknown stop words 'latin'"):
        Tokeniser(stop_words="latin")
