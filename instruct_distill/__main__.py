"""``python -m instruct_distill`` is the command ``instruct-distill``."""

from instruct_distill.cli import main

main()
