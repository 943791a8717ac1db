"""Words that carry no topic and are left out of index and queries."""

from __future__ import annotations

# EnglishAnalyzer.ENGLISH_STOP_WORDS_SET of Lucene.
_LUCENE = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they
this to was will with
"""

# Pronouns, auxiliaries and question words, of which questions and dialogues are full.
_OF_QUESTIONS = """
i me my we our ours you your yours he him his she her hers its them theirs those
what which who whom whose when where why how
am been being were do does did doing have has had having would could should can
"""

ENGLISH = frozenset((_LUCENE + _OF_QUESTIONS).split())
"""English function words, case-folded. No single letter but ``a`` and ``i``: ``vitamin C`` keeps its C."""
