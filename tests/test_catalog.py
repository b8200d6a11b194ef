"""The catalog, read from source, says the same as the classes themselves."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from ablab import UsageError, catalog, registry

OPTIONAL = catalog.option("ffn", "relu").keywords["d_ff"][0]  # `int | None`, in the form that OmegaConf reads


@pytest.mark.parametrize("slot", registry.SLOTS)
def test_source_and_class_agree(slot: str) -> None:
    for name, option in catalog.options(slot).items():
        cls = registry.get(slot, name)
        assert (option.cls_name, option.module) == (cls.__name__, cls.__module__)
        assert list(option.keywords) == list(registry.keywords(cls))
        for key, parameter in registry.keywords(cls).items():
            default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
            assert option.keywords[key][1] == default
        assert option.doc


def test_the_default_comes_first() -> None:
    assert catalog.defaults()["norm"] == "rms"
    for slot in registry.SLOTS:
        assert next(iter(catalog.options(slot))) == catalog.defaults()[slot]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, ablab, ablab.help; ablab.help.text(); ablab.compose(['norm=layer']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_nodes_are_typed() -> None:
    node = OmegaConf.structured(catalog.option("norm", "rms").node())
    assert type(node.eps) is float
    with pytest.raises(ValidationError):
        node.eps = "abc"
    betas = OmegaConf.structured(catalog.option("optimizer", "adamw").node()).betas
    assert list(betas) == [0.9, 0.95]


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        ("float", 1.0, (float, 1.0)),
        (float, 1.0, (float, 1.0)),
        ("int | None", None, (OPTIONAL, None)),
        (int | None, None, (OPTIONAL, None)),
        ("tuple[float, float]", (0.9, 0.95), (list[Any], [0.9, 0.95])),
        ("Tensor", None, (Any, None)),
        (None, "a", (Any, "a")),
        ("int | str", 3, (Any, 3)),
    ],
)
def test_types_of_options(annotation: Any, default: Any, expected: tuple[Any, Any]) -> None:
    assert catalog._field(annotation, default) == expected


def test_unknown_option() -> None:
    with pytest.raises(UsageError, match="did you mean 'swiglu'"):
        catalog.option("ffn", "swigul")
