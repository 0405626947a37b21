"""Settings in YAML, as other toolkits write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from nmt.errors import DataError
from nmt.system.files import check_settings, read_file


class _Loader(yaml.SafeLoader):
    """A loader for which objects of another toolkit are mappings, and Python's tuples lists."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse aliases for more than two values: what has aliases itself grows without bound."""
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        values = node.value if isinstance(node, yaml.SequenceNode) else [node]
        is_short = len(values) < 3 and all(isinstance(one, yaml.ScalarNode) for one in values)
        if is_alias and not is_short:
            raise yaml.YAMLError("it has aliases; write out what they stand for")
        return node


_Loader.add_multi_constructor(
    "!", lambda loader, _, node: loader.construct_mapping(node, deep=True)
)
_Loader.add_multi_constructor(
    "tag:yaml.org,2002:python/tuple", lambda loader, _, node: loader.construct_sequence(node)
)


def parse_yaml(text: str) -> Any:
    """Parse YAML that may be damaged or hostile; ValueError says in one line what is wrong."""
    check_settings(text)
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except (yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(" ".join(str(error).split())) from None  # in one line


def settings_in(text: str, path: Path) -> dict[str, Any]:
    """Return the settings in a text of YAML; DataError if there are none. path: for messages."""
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise DataError(f"{path}: damaged: its options are not YAML: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: damaged: its options are not YAML")
    return values


def read_settings(path: Path) -> dict[str, Any]:
    """Read a file of settings; DataError if it is damaged."""
    return settings_in(read_file(path).decode(errors="replace"), path)
