from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest

from instruct_distill.errors import InputError
from instruct_distill.losses import LOSSES
from instruct_distill.losses.signature import complete_parameters, loss_parameters


@pytest.mark.parametrize("name", LOSSES.names())
def test_what_is_read_is_the_signature(name: str) -> None:
    function = LOSSES.load(name).loss
    parameters = dict(inspect.signature(function).parameters)
    assert list(parameters)[:2] == ["scores", "target"]
    hints = typing.get_type_hints(function, include_extras=True)
    expected = {key: (hints[key], value.default) for key, value in list(parameters.items())[2:]}
    assert {key: tuple(value) for key, value in loss_parameters(name).items()} == expected
    # a default is a value that may be given
    defaults = {key: default for key, (_, default) in expected.items()}
    assert complete_parameters(name, defaults) == complete_parameters(name, {}) == defaults


def test_strings_get_their_type() -> None:
    found = complete_parameters("lambda_loss", {"scheme": "lambdarank", "mu": "2", "sigma": "1e-1"})
    assert found == {"scheme": "lambdarank", "gain": "linear", "sigma": 0.1, "mu": 2.0}
    assert isinstance(found["mu"], float)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "kl",
            {"temprature": "2"},
            r"loss 'kl': unknown parameter 'temprature'; did you mean 'temperature'\?",
        ),
        ("listmle", {"temperature": "2"}, r"unknown parameter 'temperature' \(it has none\)"),
        ("kl", {"temperature": "0"}, "temperature: input should be greater than 0, not '0'"),
        ("kl", {"temperature": "warm"}, "temperature: input should be a valid number.*, not 'warm'"),
        ("kl", {"temperature": "nan"}, "temperature: input should be a finite number, not 'nan'"),
        ("kl", {"temperature": "inf"}, "temperature: input should be a finite number, not 'inf'"),
        ("kl", {"temperature": None}, "temperature: input should be a valid number, not None"),
        (
            "ranknet",
            {"weights": "ranks"},
            "weights: input should be 'equal', 'margin' or 'rank', not 'ranks'",
        ),
        ("rank_net", {}, r"unknown loss 'rank_net'; did you mean 'ranknet'\?"),
    ],
)
def test_what_does_not_fit_is_named(name: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        complete_parameters(name, given)


def test_all_problems_at_once() -> None:
    with pytest.raises(InputError, match=r"'taregts'.*; weights: .* not 'x'"):
        complete_parameters("ranknet", {"taregts": "soft", "weights": "x"})


def test_no_torch_is_needed() -> None:
    code = (
        "import sys; from instruct_distill.losses.signature import complete_parameters; "
        "complete_parameters('lambda_loss', {}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
