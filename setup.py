"""Packaging; the settings of the tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION_FILE = (ROOT / "instruct_distill" / "version.py").read_text(encoding="utf-8")
VERSION = re.findall(r'^__version__ = "([^"]+)"$', VERSION_FILE, re.MULTILINE)[0]

CORE = [
    "Jinja2>=3.1",
    "MarkupSafe>=2.1",
    "PyStemmer>=2.2",
    "PyYAML>=6",
    "accelerate>=1.10",
    "bm25s>=0.2.7",
    "filelock>=3.12",
    "huggingface_hub>=1.0",
    "ir-datasets>=0.5.9",
    "matplotlib>=3.9",
    "numpy>=1.26",
    "peft>=0.18",
    "pydantic>=2.10",
    "pytrec-eval-terrier>=0.5.6",
    "rank-bm25>=0.2.2",
    "ruamel.yaml>=0.18",
    "safetensors>=0.5",
    "scipy>=1.15",
    "torch>=2.6",
    "tqdm>=4.66",
    "transformers>=5",
    "typer>=0.15",
    "typing_extensions>=4.12",
]
GGUF = ["gguf>=0.17"]
HTTP = ["anyio>=4", "openai>=1.109"]
DEEPSPEED = ["deepspeed>=0.18; sys_platform == 'linux'"]
QLORA = ["bitsandbytes>=0.46"]
ONNX = ["onnx>=1.17", "onnxruntime>=1.20", "onnxscript>=0.3"]
SERVE = ["fastapi>=0.115", "prometheus-client>=0.20", "uvicorn>=0.30"]
INTEGRATIONS = {
    "pyterrier": ["python-terrier>=1.0"],
    "langchain": ["langchain-core>=0.3"],
    "llama-index": ["llama-index-core>=0.12"],
    "haystack": ["haystack-ai>=2.10"],
}
DEV = [
    *GGUF,
    *(package for packages in INTEGRATIONS.values() for package in packages),
    "cohere>=5",  # langchain-cohere and the post-processor below need one before 6
    "httpx>=0.27",
    "langchain-cohere>=0.4",
    "llama-index-postprocessor-cohere-rerank>=0.4",
    "mkdocs-material>=9.5",
    "sentence-transformers>=5",
    *DEEPSPEED,
    *HTTP,
    *ONNX,
    *SERVE,
    "hypothesis>=6.100",
    "import-linter>=2.5",
    "ir-measures>=0.4",
    "mypy>=1.18",
    "playwright>=1.50",
    "psutil>=6",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "ruff>=0.14",
    "schemathesis>=4",
    "tensorboard>=2.16",
    "types-tqdm",
]

setup(
    name="instruct-distill",
    version=VERSION,
    description="Distil the pairwise ranking of large language models into fast rerankers, without labels",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["instruct_distill", "instruct_distill.*"]),
    package_data={
        "instruct_distill": ["py.typed"],
        "instruct_distill.report": ["page.html"],
        "instruct_distill.serving": ["page.html"],
    },
    install_requires=CORE,
    extras_require={
        "deepspeed": DEEPSPEED,
        "gguf": GGUF,
        "http": HTTP,
        "onnx": ONNX,
        "qlora": QLORA,
        "serve": SERVE,
        **INTEGRATIONS,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["instruct-distill = instruct_distill.cli:main"]},
)
