"""Prompt records, and the one encoder that turns parts into token ids within a budget."""
