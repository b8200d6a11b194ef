"""The treatment check: what a swap changed, and a refusal where it changes nothing or more than it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tiny_cell import TINY
from torch import nn

from ablab import registry
from ablab.components.ffn import ReLU
from ablab.components.norm import RMSNorm
from ablab.composition import compose
from ablab.data import prepare
from ablab.errors import UsageError
from ablab.study import treatment
from ablab.study.planning import plain


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A text file and the folder of its tokens."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "tiny.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    word = f"data.path={folder / 'tiny.txt'}"
    return word, str(prepare(compose([*TINY.split(), word]), folder / "cache").folder)


def checked(text: tuple[str, str], *variants: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Records by label and warnings; the first variant is the baseline."""
    asked = []
    for factors in variants:
        words = [f"{key}={value}" for key, value in factors.items()]
        asked.append((",".join(words), factors, plain(compose([*TINY.split(), text[0], *words]))))
    records, warnings = treatment.check(asked, 0, text[1])
    return {record["label"]: record for record in records}, warnings


@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch):
    """Stand a class in for an option while the test lasts."""

    def put(slot: str, option: str, cls: type) -> None:
        registry.get(slot, option)  # loads the slot
        monkeypatch.setitem(registry._options[slot], option, cls)

    return put


def test_layer_norm_adds_biases_and_nothing_else(text: tuple[str, str]) -> None:
    records, warnings = checked(text, {"norm": "rms"}, {"norm": "layer"}, {"norm": "identity"})
    layer, identity = records["norm=layer"], records["norm=identity"]
    assert warnings == []
    assert layer["added"] == ["layers.*.ln1.bias 32", "layers.*.ln2.bias 32", "ln_final.bias 32"]
    assert (layer["removed"], layer["reshaped"], layer["shared_equal"], layer["norm_modules"]) == ([], [], True, 5)
    assert layer["parameters"] - records["norm=rms"]["parameters"] == 5 * 32
    assert identity["removed"] == ["layers.*.ln1.weight 32", "layers.*.ln2.weight 32", "ln_final.weight 32"]
    assert identity["norm_modules"] == 0 and len(identity["optimizer_groups"]) == 1


def test_a_gate_reshapes_and_adds(text: tuple[str, str]) -> None:
    records, _ = checked(
        text,
        {"ffn": "swiglu"},
        {"ffn": "relu"},
    )
    relu = records["ffn=relu"]
    assert relu["removed"] == ["layers.*.ffn.w3.weight 96×32"]
    assert relu["reshaped"] == ["layers.*.ffn.w1.weight 96×32 → 144×32", "layers.*.ffn.w2.weight 32×96 → 32×144"]
    assert relu["parameters"] == records["ffn=swiglu"]["parameters"]


def test_first_losses_are_near_the_uniform_guess(text: tuple[str, str]) -> None:
    records, _ = checked(text, {"position": "rope"}, {"position": "none"})
    for record in records.values():
        assert record["first_loss"] == pytest.approx(torch.log(torch.tensor(28.0)).item(), abs=0.3)


def test_a_swap_of_an_option_that_changes_nothing_is_refused(text: tuple[str, str], another) -> None:
    another("norm", "layer", RMSNorm)
    with pytest.raises(UsageError, match=r"norm=layer changes nothing.*is norm read by anything"):
        checked(text, {"norm": "rms"}, {"norm": "layer"})


def test_a_key_that_changes_nothing_here_is_a_warning(text: tuple[str, str]) -> None:
    _, warnings = checked(text, {"norm.eps": 1e-30}, {"norm.eps": 1e-31})
    assert len(warnings) == 1 and "norm.eps=1e-31 changes nothing" in warnings[0]


def test_a_swap_that_changes_more_than_it_says_is_refused(text: tuple[str, str], another) -> None:
    class Half(RMSNorm):
        def __init__(self, d_model: int, **options: Any) -> None:
            super().__init__(d_model)
            nn.init.constant_(self.weight, 0.5)

    another("norm", "layer", Half)
    with pytest.raises(UsageError, match=r"changes more than it says: layers\.\*\.ln1\.weight.*start differently"):
        checked(text, {"norm": "rms"}, {"norm": "layer"})


def test_another_init_or_salt_is_meant_to_change_the_weights(text: tuple[str, str]) -> None:
    for one, other in (({"init": "gpt2"}, {"init": "cs336"}), ({"seeds.salt": 0}, {"seeds.salt": 1})):
        records, warnings = checked(text, one, other)
        assert [record["shared_equal"] for record in records.values()] == [True, False] and warnings == []


def test_rates_and_optimisers_do_not_show_and_are_not_refused(text: tuple[str, str]) -> None:
    _, warnings = checked(text, {"optimizer.lr": 1e-3}, {"optimizer.lr": 1e-4})
    assert warnings == []


def test_a_variant_that_raises_is_named_and_the_rest_is_checked(text: tuple[str, str], another) -> None:
    class Breaks(ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError("no")

    another("ffn", "relu", Breaks)
    records, warnings = checked(text, {"ffn": "swiglu", "norm": "rms"}, {"ffn": "relu", "norm": "rms"},
                                {"ffn": "swiglu", "norm": "layer"})  # fmt: skip
    assert list(records) == ["ffn=swiglu,norm=rms", "ffn=swiglu,norm=layer"]
    assert warnings == ["ffn=relu,norm=rms fails before it is trained: ArithmeticError: no"]
