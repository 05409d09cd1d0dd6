"""Files that only their owner may read, written so that a crash leaves the old or the new content, never half of it."""

import json
import os
import shlex
import stat
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from protocols.errors import StateError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
Scalar = str | int | float | bool
TomlValue = Scalar | Sequence[str] | Mapping[str, int | float]
"""All that we write into a TOML file: scalars, lists of texts, and small tables of numbers on one line."""


def make_private_folder(path: Path) -> Path:
    """The folder, made with its parents and readable by its owner only; StateError when others may enter it."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    check_private(path)
    return path


def check_private(path: Path) -> None:
    """Raises StateError unless the path belongs to us and neither group nor others have any right on it."""
    try:
        found = path.lstat()
    except FileNotFoundError as error:
        raise StateError(f"{path} does not exist", remedy="run `fedaccord init` first") from error
    if stat.S_ISLNK(found.st_mode):
        raise StateError(f"{path} is a symbolic link", remedy="put the file itself into the state folder")
    if found.st_uid != os.getuid():
        raise StateError(f"{path} belongs to user id {found.st_uid}, we run as {os.getuid()}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        wanted = "0700" if stat.S_ISDIR(found.st_mode) else "0600"
        raise StateError(
            f"{path} has mode {mode:04o}, others could read it",
            remedy=f"chmod {wanted} {shlex.quote(str(path))} and look who did that",
        )


def write_private(path: Path, content: str | bytes) -> None:
    """Replaces the file atomically and durably, with mode 0600; when that fails, the old content stays and no other."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes a rename in the folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Mapping[str, object] | Sequence[object]) -> None:
    """Writes a JSON document like `write_private`, with sorted keys."""
    write_private(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in the file; StateError naming the file when it is missing or broken."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise StateError(f"{path} does not exist") from error
    except OSError as error:
        raise StateError(f"{path} can't be read: {error.strerror}") from error
    return parse_json(data, path)


def parse_json(data: bytes, path: Path) -> dict[str, object]:
    """The JSON object in what was read from the file; StateError naming the file when it is broken."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path} is not readable JSON", remedy="restore it from a backup") from error
    if not isinstance(value, dict):
        raise StateError(f"{path} does not hold a JSON object", remedy="restore it from a backup")
    return value


def read_toml(path: Path) -> dict[str, object]:
    """The TOML document in the file; StateError naming file and line when it is missing or broken."""
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise StateError(f"{path} does not exist") from error
    except OSError as error:
        raise StateError(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: {error}", remedy="correct the file") from error


def toml_text(tables: Mapping[str, Mapping[str, TomlValue]], comment: str = "") -> str:
    """TOML text of tables of what we write; table "" is first, without a heading."""
    lines = [f"# {line}" for line in comment.splitlines()]
    for name, table in tables.items():
        lines += ["", f"[{name}]"] if name else []
        lines += [f"{toml_key(key)} = {_toml_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """The name as a key of TOML, quoted if it must be."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)


def _toml_value(value: TomlValue) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {json.dumps(each)}' for key, each in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
