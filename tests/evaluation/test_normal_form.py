from __future__ import annotations

import pytest

from instruct_distill.evaluation.normal_form import normalise, words_of


@pytest.mark.parametrize(
    "variant",
    [
        "Who is Robert Gray?",
        "WHO IS ROBERT GRAY",
        " who is\trobert  gray ... ",
        "who-is 'robert' “gray”",
        "\uff37\uff48\uff4f is Robert Gray",  # full width
        "who is ro\u00adbert gray\u200b",  # soft hyphen, zero-width space
        "who\u00a0is\u2003robert gray",
    ],
)
def test_variants_have_one_form(variant: str) -> None:
    assert normalise(variant) == "whoisrobertgray"
    assert normalise(variant) == normalise("who is robert gray")


def test_compositions_ligatures_and_cases_beyond_ascii() -> None:
    assert normalise("cafe\u0301 O\ufb03ce STRASSE") == normalise("CAF\u00c9 office stra\u00dfe")


def test_symbols_make_another_text_but_no_other_words() -> None:
    assert normalise("C++") != normalise("C")
    assert words_of("C++") == words_of("C") == ["c"]


def test_words() -> None:
    found = words_of("The AML/BSA-analyst's_job: 3.5 years.")
    assert " ".join(found) == "the aml bsa analyst s job 3 5 years"
    assert words_of("हिन्दी में") == ["हिन्दी", "में"]
    assert words_of("東京 ab大学") == ["東", "京", "ab", "大", "学"]
    assert words_of("soft\u00adware") == ["software"]
    assert words_of("?!") == []
