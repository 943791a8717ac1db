"""The files of recipes/launch: what accelerate makes of them, and the commands on top of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate.commands.config import load_config_from_file

from instruct_distill.training.processes import launched_with

FOLDER = Path(__file__).resolve().parents[2] / "recipes" / "launch"
Environment = Callable[[str, int], dict[str, str]]

# launcher, ZeRO stage, where the optimizer is, where the weights are
EXPECTED = {
    "cpu": ("plain", None, None, None),
    "gpu": ("plain", None, None, None),
    "multi-gpu": ("plain", None, None, None),
    "multi-node": ("plain", None, None, None),
    "deepspeed-zero1": ("deepspeed", "1", "none", "none"),
    "deepspeed-zero2": ("deepspeed", "2", "none", "none"),
    "deepspeed-zero2-offload": ("deepspeed", "2", "cpu", "none"),
    "deepspeed-zero3": ("deepspeed", "3", "none", "none"),
    "deepspeed-zero3-offload": ("deepspeed", "3", "cpu", "cpu"),
    "fsdp2": ("fsdp", None, None, None),
}


def test_each_file_is_expected() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_accelerate_understands_it(
    name: str, launch_environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    if EXPECTED[name][0] == "deepspeed":
        pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    load_config_from_file(str(FOLDER / f"{name}.yaml"))  # refuses unknown keys
    found = launch_environment(name, 2 if name.startswith("multi") else 1)
    for key, value in found.items():
        monkeypatch.setenv(key, value)
    keys = ("ZERO_STAGE", "OFFLOAD_OPTIMIZER_DEVICE", "OFFLOAD_PARAM_DEVICE")
    settings = [found.get(f"ACCELERATE_DEEPSPEED_{key}") for key in keys]
    assert (launched_with(), *settings) == EXPECTED[name]
    assert found["ACCELERATE_MIXED_PRECISION"] == "no"  # the recipe decides
    assert found.get("ACCELERATE_DEEPSPEED_ZERO3_INIT", "false") == "false"
    assert (found.get("ACCELERATE_USE_CPU", "False").lower() == "true") == (name == "cpu")
    if name == "fsdp2":
        assert found["FSDP_VERSION"] == "2"
        assert found["FSDP_RESHARD_AFTER_FORWARD"] == "true"
        assert found["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "false"


@pytest.mark.parametrize("name", EXPECTED)
def test_its_first_line_is_its_command(name: str) -> None:
    first = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# accelerate launch --config_file recipes/launch/{name}.yaml ")
    assert first.endswith(" train.py RECIPE")
    # without a number in the file, accelerate wants one from the command line
    content = load_config_from_file(str(FOLDER / f"{name}.yaml"))
    assert ("--num_processes" in first) == (content.num_processes == -1)
