"""Values: in which order layers win, what each may be, and how all problems are told at once."""

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from nmt.config import recipes
from nmt.config.fields import as_toml
from nmt.config.model_config import TransformerConfig
from nmt.config.presets import preset_values
from nmt.config.training_config import AugmentConfig, TrainingConfig
from nmt.errors import DataError, UsageError


def resolve(*layers: recipes.Layer) -> recipes.Recipe:
    return recipes.resolve_recipe("p", "transformer", layers)


def resolve_set(**values: object) -> recipes.Recipe:
    return resolve(("--set", values))


def refusal(**values: object) -> str:
    with pytest.raises(UsageError) as caught:
        resolve_set(**values)
    return str(caught.value)


# ------------------------------------------------------------------------------ layers


def test_later_layers_win_default_preset_toml_command_line(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[model]\nd_model = 64\nnum_heads = 2\n[training]\nseed = 5\n")
    toml, overrides = (
        recipes.read_toml(recipe),
        recipes.parse_overrides(["d_model=32", "log_every = 7"]),
    )
    resolved = resolve(
        ("preset", preset_values("transformer_small")), (str(recipe), toml), ("--set", overrides)
    )
    assert isinstance(resolved.model, TransformerConfig)
    assert resolved.model.num_decoder_layers == 3  # the preset's
    assert resolved.model.num_heads == 2  # the file's, over the preset's 4
    assert resolved.model.d_model == 32  # the command line's, over all
    assert resolved.model.dropout == 0.1  # the class default
    assert resolved.training.batch_tokens == 4_096  # the preset's
    assert (resolved.training.seed, resolved.training.log_every) == (5, 7)


def test_keys_are_unique_over_all_sections() -> None:
    keys = [
        field.name
        for cls in (TransformerConfig, TrainingConfig, AugmentConfig)
        for field in dataclasses.fields(cls)
    ]
    assert len(set(keys)) == len(keys)


def test_the_default_of_every_value_is_allowed() -> None:
    assert resolve().training == TrainingConfig()
    defaults = dataclasses.asdict(TransformerConfig()) | dataclasses.asdict(TrainingConfig())
    assert resolve_set(**defaults) == resolve()


# ---------------------------------------------------------------------------- problems


def test_all_problems_of_all_layers_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(
            ("a.toml", {"d_modell": 3, "dropout": 1.5}),
            ("--set", {"seed": "x", "schedule": "inverse_sqr", "d_ff": "0"}),
        )
    named = r"a\.toml|--set|d_modell?'|[a-z_]+ = [^:]+:|'inverse_sqrt'|\d+$"
    expected = ["a.toml", "d_modell'", "d_model'", "a.toml", "dropout = 1.5:"]
    expected += ["--set", 'seed = "x":', "--set", 'schedule = "inverse_sqr":', "'inverse_sqrt'"]
    expected += ["--set", "d_ff = 0:", "1000000"]
    assert re.findall(named, str(caught.value)) == expected


def test_what_does_not_fit_together_is_told_together() -> None:
    message = refusal(d_model=30, num_heads=4, best_metric="bleu")
    assert re.search("d_model 30 .*num_heads 4", message)
    assert "best_metric 'bleu' needs validate_metric = bleu" in message
    assert "d_model 9 " in refusal(d_model=9, num_heads=3)
    assert "upper_case and title_case" in refusal(upper_case=0.6, title_case=0.5)
    assert "queries are 3 " in refusal(d_model=12, num_heads=4, positions="rotary")
    assert resolve_set(best_metric="bleu", validate_metric="bleu").training.metrics == ["bleu"]
    message = refusal(best_metric="chrf", validate_metric="bleu")
    assert "best_metric 'chrf' needs validate_metric = bleu,chrf" in message
    both = resolve_set(best_metric="chrf", validate_metric="bleu,chrf").training
    assert both.metrics == ["bleu", "chrf"]


def test_heads_of_widths_of_their_own_need_not_divide_d_model() -> None:
    values = {"d_model": 30, "num_heads": 4, "d_k": 6, "d_v": 5}
    model = resolve_set(**values).model
    assert isinstance(model, TransformerConfig)
    assert model.head_widths == (6, 5)
    assert "d_model 30 " in refusal(**values | {"d_v": 0})
    resolve_set(**values | {"d_model": 31, "positions": "learned"})  # no sinusoids, no pairs


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        # As the command line gives them, in strings.
        ("d_ff", "300", 300),
        ("batch_tokens", "25,000", 25_000),
        ("batch_tokens", "25_000", 25_000),
        ("dropout", "0", 0.0),
        ("adam_epsilon", "1e-8", 1e-8),
        ("tensorboard", "true", True),
        ("tensorboard", "False", False),
        # As TOML gives them.
        ("dropout", 0, 0.0),
    ],
)
def test_values_become_the_field_s_type(key: str, raw: object, value: object) -> None:
    recipe = resolve_set(**{key: raw})
    values = dataclasses.asdict(recipe.model) | dataclasses.asdict(recipe.training)
    assert values[key] == value
    assert type(values[key]) is type(value)


@pytest.mark.parametrize(
    ("key", "raw", "message"),
    [
        ("d_ff", "3.5", 'd_ff = "3.5": '),
        ("d_ff", 512.0, "d_ff = 512.0: "),
        ("d_ff", True, "d_ff = true: "),
        ("d_ff", [1], "d_ff = [1]: "),
        ("batch_tokens", "1,5", 'batch_tokens = "1,5": '),
        # A decimal comma must not shift a number by powers of ten.
        ("learning_rate", "0,5", 'learning_rate = "0,5": '),
        ("dropout", "half", 'dropout = "half": '),
        ("learning_rate", "nan", "learning_rate = NaN: "),
        ("tensorboard", "yes", 'tensorboard = "yes": '),
        ("tensorboard", 1, "tensorboard = 1: "),
        ("device", 3, "device = 3: "),
        ("device", "gpu", 'device = "gpu": unknown'),
        # Bounds.
        ("seed", 2**31, "seed = 2147483648: "),
        ("threads", 1025, "threads = 1025: "),  # more would crash torch
        ("num_encoder_layers", 1000, "num_encoder_layers = 1000: "),
        ("dropout", -0.1, "dropout = -0.1: "),
        ("dropout", 1.0, "dropout = 1.0: "),
        ("typos", 1.5, "typos = 1.5: "),
    ],
)
def test_what_a_value_cannot_be_is_told(key: str, raw: object, message: str) -> None:
    assert refusal(**{key: raw}).startswith(f"--set: {message}")


def test_overrides_are_split_at_the_first_equals_sign() -> None:
    assert recipes.parse_overrides(["a=1", " b = x=y ", "c=", "a=2"]) == {
        "a": "2",
        "b": "x=y",
        "c": "",
    }
    for text in ("dropout", "=3", " =3", ""):
        with pytest.raises(UsageError, match=re.escape(repr(text))):
            recipes.parse_overrides([text])


# -------------------------------------------------------------------------------- TOML


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        (b"[model]\xff\n", "not a TOML"),
        (b"d_model = 3\n", "'d_model' is"),
        (b"[modell]\nd_model = 3\n", "'modell' is"),
        (b"[training]\nd_model = 3\nseed = 2\n", "d_model: "),
        (b"[model]\nseed = 2\n", "seed: "),
        (b"[[model]]\nd_model = 3\n", "'model' is"),
        (b"[model]\ndropout = 0,1\n", "not a TOML"),
    ],
)
def test_a_bad_recipe_is_refused_by_name(tmp_path: Path, text: bytes | None, message: str) -> None:
    path = tmp_path / "recipe.toml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(UsageError) as caught:
        recipes.read_toml(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_formatted_values_are_read_back_the_same(tmp_path: Path) -> None:
    recipe = resolve_set(
        adam_epsilon=1e-9,
        dropout=1 / 3,
        learning_rate=1.5e-7,
        d_ff=999_999,
        tensorboard=True,
        validate_metric="bleu,chrf",
        schedule="linear",
        typos=0.1,
    )
    text = recipes.format_toml(recipe.sections)
    assert "# Inner width of the feed-forward sub-layer.\nd_ff = 999999\n" in text
    document = tomllib.loads(text)
    assert document["model"] == dataclasses.asdict(recipe.model)
    assert document["training"] == dataclasses.asdict(recipe.training)
    assert document["augment"]["typos"] == recipe.augment.typos == 0.1
    path = tmp_path / "again.toml"
    path.write_text(text)
    assert resolve((str(path), recipes.read_toml(path))) == recipe


def test_a_run_s_configuration_is_a_recipe(tmp_path: Path) -> None:
    # Its [run] section tells of the run, and says nothing of how to train.
    (tmp_path / "config.toml").write_text("[run]\nranks = 2\n[model]\nd_ff = 100\n")
    assert recipes.read_toml(tmp_path / "config.toml") == {"d_ff": 100}


@pytest.mark.parametrize("key", recipes.GONE)
def test_a_key_that_is_gone_is_read_of_an_earlier_version(tmp_path: Path, key: str) -> None:
    path, default = tmp_path / "config.toml", recipes.GONE[key]
    other = not default if isinstance(default, bool) else 7
    run = f"[run]\nranks = 2\n[training]\nseed = 3\n{key} = "
    path.write_text(run + as_toml(default))
    assert recipes.read_toml(path) == {"seed": 3}
    assert recipes.model_config_from("transformer", {key: default}, "m") == TransformerConfig()
    path.write_text(run + as_toml(other))
    with pytest.raises(UsageError, match=f"config.toml: {key} is "):
        recipes.read_toml(path)
    with pytest.raises(DataError, match=f"m: {key} is "):
        recipes.model_config_from("transformer", {key: other}, "m")
    assert refusal(**{key: default}).startswith(f"--set: '{key}'")  # a recipe is of today


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"validate_bleu": False, "validate_metric": "none"}, "none"),
        ({"validate_bleu": False, "validate_metric": "chrf"}, "chrf"),
        ({"validate_bleu": True, "validate_metric": "none"}, "bleu"),
        ({"validate_bleu": True, "validate_metric": "bleu"}, "bleu"),
        ({"validate_bleu": True, "validate_metric": "chrf"}, "bleu,chrf"),
        ({"validate_bleu": True}, "bleu"),
    ],
)
def test_two_keys_for_the_metrics_of_validation_are_read_as_one(
    tmp_path: Path, before: dict[str, object], now: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(recipes.format_toml({"run": {"ranks": 2}, "training": before}))
    assert recipes.read_toml(path) == {"validate_metric": now}
    message = refusal(validate_bleu=True)
    assert message.startswith("--set: 'validate_bleu'")
    assert "write validate_metric = bleu" in message


# -------------------------------------------------------------------------- model files


def test_a_model_file_s_configuration_is_checked_like_a_recipe() -> None:
    values: dict[str, object] = dataclasses.asdict(TransformerConfig(d_ff=100))
    assert recipes.model_config_from("transformer", values, "m") == TransformerConfig(d_ff=100)
    with pytest.raises(DataError, match=r"m: .*'transformr'"):
        recipes.model_config_from("transformr", values, "m")
    with pytest.raises(DataError, match="m: d_ff = -1"):
        recipes.model_config_from("transformer", values | {"d_ff": -1}, "m")
