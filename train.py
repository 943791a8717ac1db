"""Run a recipe: ``accelerate launch train.py RECIPE [key=value ...] [--smoke]``."""

import sys

from instruct_distill.cli import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
