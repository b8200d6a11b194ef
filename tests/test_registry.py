"""One registry per slot: names are unique, options have defaults, errors list what there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ablab import UsageError, register, registry


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    for slot in registry.SLOTS:
        registry.options(slot)  # imports what is shipped, once
    before = {slot: dict(found) for slot, found in registry._options.items()}
    yield
    for slot, found in before.items():
        registry._options[slot].clear()
        registry._options[slot].update(found)


def test_a_decorated_class_is_an_option() -> None:
    @register("norm", "mine")
    class Mine:
        def __init__(self, d_model: int, *, eps: float = 1e-5, kind: str = "a") -> None: ...

    assert registry.get("norm", "mine") is Mine
    assert registry.options("norm")[-1] == "mine"
    assert list(registry.keywords(Mine)) == ["eps", "kind"]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(UsageError, match=r"norm=rms is registered twice: by ablab\.components\.norm\.RMSNorm"):
        registry.get("norm", "rms")

        @register("norm", "rms")
        class Mine:
            def __init__(self, d_model: int) -> None: ...


def test_the_same_class_again_is_no_second_one() -> None:
    cls = registry.get("norm", "rms")
    assert register("norm", "rms")(cls) is cls


@pytest.mark.parametrize("name", ["", "null", "True", "nan", "a-b", "a b", "a.b", "größe", "a,b", "a=b"])
def test_names_that_cannot_be_typed(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name an option of norm"):
        register("norm", name)


def test_none_and_off_are_names() -> None:
    for name in ("none", "off", "no"):
        register("position", name)


def test_unknown_words_list_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"'nrom' \(did you mean 'norm'\?\)"):
        register("nrom", "x")
    with pytest.raises(UsageError, match=r"'layre' \(did you mean 'layer'\?\)"):
        registry.get("norm", "layre")
    with pytest.raises(UsageError, match=r"choices: .*ffn"):
        registry.options("banana")


def test_an_option_needs_a_default() -> None:
    with pytest.raises(UsageError, match="Mine: the keyword-only argument 'eps' needs a default"):

        @register("norm", "mine")
        class Mine:
            def __init__(self, d_model: int, *, eps: float) -> None: ...


@pytest.mark.parametrize("slot", registry.SLOTS)
def test_every_slot_has_options_and_says_what_it_is(slot: str) -> None:
    assert registry.options(slot)
    assert all(registry.SLOTS[slot])
