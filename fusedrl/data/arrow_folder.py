"""A Hugging Face dataset on disk, as Dataset.save_to_disk writes it: a folder of Arrow streams that state.json names.

    my_data/state.json    {"_data_files": [{"filename": "data-00000-of-00002.arrow"}, ...], ...}

The library that wrote it is not needed, only pyarrow. A folder of several splits (dataset_dict.json) holds one such
folder for each.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fusedrl.data.json_object import JsonObject
from fusedrl.data.rows import RowError

END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream: pyarrow takes one that breaks off between two batches for whole
STATE, SPLITS = "state.json", "dataset_dict.json"


def arrow_records(folder: Path) -> Iterator[tuple[str, Any]]:
    """(place, columns) of each row, counted from 1 over all files. Raises RowError."""
    try:
        import pyarrow
    except ImportError as error:
        raise RowError(f"{folder}: a dataset on disk needs pyarrow (pip install fusedrl[parquet])") from error
    number = 0
    for path in _files(folder):
        try:
            stream = path.read_bytes()
            batches = [batch.to_pylist() for batch in pyarrow.ipc.open_stream(stream)]
        except Exception as error:  # whatever a column's values raise as Python objects: unknown time zones, dates
            raise RowError(f"{path}: cannot be read: {error}") from error
        if not stream.endswith(END):
            raise RowError(f"{path}: breaks off before its end; save it anew")
        for record in (record for batch in batches for record in batch):
            number += 1
            yield f"{folder}:{number}", record


def _files(folder: Path) -> list[Path]:
    """The Arrow files in the rows' sequence."""
    if not (folder / STATE).is_file():
        if (folder / SPLITS).is_file():
            splits = sorted(path.parent.name for path in folder.glob(f"*/{STATE}"))
            if not splits:
                raise RowError(f"{folder}: a dataset of several splits, but none of their folders is there")
            raise RowError(f"{folder}: a dataset of the splits {', '.join(splits)}; name one, {folder}/{splits[0]}")
        raise RowError(f"{folder}: a folder without {STATE}; give a file, or what Dataset.save_to_disk wrote")
    try:
        state = JsonObject.read(folder / STATE).values
    except ValueError as error:
        raise RowError(str(error)) from error
    if state.get("_indices_data_files"):
        raise RowError(
            f"{folder}: its rows are picked by an index file; write it anew with a later version of datasets"
        )
    files = state.get("_data_files")
    if not isinstance(files, list) or not all(isinstance(each, dict) and "filename" in each for each in files):
        raise RowError(f"{folder}/{STATE}: no list of _data_files there")
    names = [str(each["filename"]) for each in files]
    if outside := [name for name in names if Path(name).name != name]:
        raise RowError(f"{folder}/{STATE}: {outside[0]} is not the name of a file in this folder")
    return [folder / name for name in names]
