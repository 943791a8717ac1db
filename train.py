"""Run a recipe: ``accelerate launch train.py RECIPE [key=value ...] [--smoke]``."""

import sys

from instruct_distill.cli import main
from instruct_distill.cli.utf8 import restart_in_utf8

if __name__ == "__main__":
    restart_in_utf8()
    main(["run", *sys.argv[1:]])
