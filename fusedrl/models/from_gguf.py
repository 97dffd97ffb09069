"""A GGUF file as a Hugging Face folder: `python -m fusedrl.models.from_gguf FILE.gguf FOLDER`.

Transformers reads the file: it writes quantised weights out as float32, and makes the tokenizer and the chat template
from the file's own. It needs the packages gguf and accelerate, which nothing else here does (launch/smollm2.sh puts
them into a folder of their own). The weights are then copied into a plain model, which is saved: a model that came
from a quantised file refuses to be.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(file: Path, *, folder: Path) -> None:
    """config.json, model.safetensors (fp32), generation_config.json and the tokenizer, in `folder`."""
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    save(AutoModelForCausalLM.from_pretrained(dtype=torch.float32, **source), tokenizer=tokenizer, folder=folder)


def save(model: nn.Module, *, tokenizer: Any, folder: Path) -> None:
    """The weights in a plain model, float32, with what the file says of the tokenizer."""
    found: Any = model
    kind = type(found.config)
    known = {key: value for key, value in found.config.to_dict().items() if key != "quantization_config"}
    plain: Any = type(model)(kind(**known)).float()
    plain.load_state_dict(model.state_dict())
    plain.generation_config = found.generation_config
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="A GGUF file as a Hugging Face folder")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    convert(options.file, folder=options.folder)
    print(f"{options.file.name} is in {options.folder}")


if __name__ == "__main__":
    main()
