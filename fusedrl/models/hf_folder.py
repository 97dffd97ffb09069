"""A Hugging Face checkpoint folder as a lazy mapping from name to tensor; safetensors only, nothing unpickled."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from fusedrl.data.json_object import JsonObject

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class HfFolder(Mapping[str, Tensor]):
    """Reads one tensor at a time; the names are known from the headers."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._file_of: dict[str, Path] = {}
        self.files = tuple(self._files())
        for path in self.files:
            with safe_open(path, framework="pt") as opened:
                self._file_of |= dict.fromkeys(opened.keys(), path)

    def __getitem__(self, name: str) -> Tensor:
        with safe_open(self._file_of[name], framework="pt") as opened:
            return opened.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)

    def _files(self) -> list[Path]:
        index = self.folder / INDEX
        if index.is_file():
            file_of = JsonObject.read(index).inner("weight_map")
            files = sorted({self.folder / file_of.text(name) for name in file_of.values})
        else:
            files = [self.folder / SINGLE]
        missing = [path.name for path in files if not path.is_file()]
        if missing:
            raise ValueError(
                f"{self.folder}: {', '.join(missing)} is missing; weights are read from safetensors files only"
            )
        return files
