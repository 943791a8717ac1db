from __future__ import annotations

import json
import platform
import subprocess
import sys

import torch

from instruct_distill.environment import environment, processor


def test_it_names_machine_and_versions() -> None:
    found = environment()
    assert found["python"] == platform.python_version()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert processor()
    assert json.loads(json.dumps(found)) == found


def test_asking_does_not_load_torch() -> None:
    code = (
        "import sys; from instruct_distill.environment import environment as e; "
        "assert 'threads' not in e(); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
