"""Flags over environment over file, and what is said about what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_host.settings import Invocation, ServerSettings, load
from tf_plugins import SettingsError

A_KEY = "a key of printable characters without white space; leave it out to serve without one"
A_DRAFTER = "a name or a folder, or true for the one that goes with the model"
ORIGINS = "different origins of the form https://host[:port], or *"
NO_ORIGINS = ("foo", "chat.example.org:443", "https://", "https://a.example/", "https://A.example", "//a.example")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tf.toml"


def said(*argv: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(argv)
    return str(caught.value)


def test_flag_over_variable_over_file_over_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("port = 1\nqueue = 1\ncontext = 100\n")
    monkeypatch.setenv("TF_PORT", "2")
    monkeypatch.setenv("TF_QUEUE", "2")
    settings = load(["--settings", "tf.toml", "--port", "3"]).settings
    assert (settings.port, settings.queue, settings.context, settings.host) == (3, 2, 100, "127.0.0.1")
    origins = [str(settings.origin(name)) for name in ("port", "queue", "context", "host")]
    assert origins == ["--port", "TF_QUEUE", "tf.toml: context", "default"]


def test_the_file_by_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("port = 1\n")
    monkeypatch.setenv("TF_SETTINGS", "tf.toml")
    assert load([]).settings.port == 1


def test_every_source_gives_every_kind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('drafter = true\nserved_model_name = ["a", "b"]\nparallel = "auto"\ndrafts = false\n')
    from_file = load(["--settings", "tf.toml"]).settings
    for name, value in {"DRAFTER": "true", "SERVED_MODEL_NAME": "a, b", "PARALLEL": "auto", "DRAFTS": "false"}.items():
        monkeypatch.setenv(f"TF_{name}", value)
    from_variables = load([]).settings
    flags = ["--drafter", "--served-model-name", "a", "--served-model-name=b", "--parallel", "auto", "--no-drafts"]
    from_flags = load(flags).settings
    assert from_file.model_dump() == from_variables.model_dump() == from_flags.model_dump()
    assert (from_file.drafter, from_file.served_model_name, from_file.parallel) == ("", ("a", "b"), "auto")


def test_a_flag_turns_a_switch_of_the_file_back(file: Path) -> None:
    file.write_text("drafts = false\nreprobe = true\n")
    settings = load(["--settings", "tf.toml", "--drafts", "--no-reprobe"]).settings
    assert (settings.drafts, settings.reprobe) == (True, False)
    assert str(settings.origin("reprobe")) == "--no-reprobe"


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_PORT", "")
    assert load([]).settings.port == 8080


def test_an_empty_key_never_opens_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said("--api-key=") == f"--api-key must be {A_KEY}"
    monkeypatch.setenv("TF_API_KEY", "")
    assert said() == "TF_API_KEY is empty\nhint: unset it to serve without a key"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--paralel", "2"], "no flag --paralel\nhint: did you mean --parallel?"),
        (["--promptcachegib=2"], "no flag --promptcachegib\nhint: did you mean --prompt-cache-gib?"),
        (["--para", "2"], "no flag --para\nhint: did you mean --parallel?"),
        (["--zzz"], "no flag --zzz\nhint: tf-serve --help lists the flags"),
        (["--port"], "--port needs a value\nhint: tf-serve --help lists the flags"),
        (["--reprobe=1"], "--reprobe/--no-reprobe takes no value, not even '1'\nhint: tf-serve --help lists the flags"),
        (["--parallel", "0"], "--parallel must be a whole number from 1 up, or auto, not '0'"),
        (["--parallel", "some"], "--parallel must be a whole number from 1 up, or auto, not 'some'"),
        (["--context", "63"], "--context must be a whole number of tokens from 64 up, not '63'"),
        (["--port", "65536"], "--port must be a whole number from 0 to 65535, not '65536'"),
        (["--port", "-1"], "--port must be a whole number from 0 to 65535, not '-1'"),
        (["--memory-gib", "nan"], "--memory-gib must be a number above 0, not 'nan'"),
        (["--cpu-blas", "openblas"], "--cpu-blas must be auto, mkl or none, not 'openblas'"),
        (["--decode-share", "1"], "--decode-share must be a number from 0 up to but not including 1, not '1'"),
        (["--draft-depth", "16"], "--draft-depth must be a whole number from 1 to 15, not '16'"),
        *((["--cors", one], f"--cors must be {ORIGINS}, not {one!r}") for one in NO_ORIGINS),
        (["--use-plugins", "a,a"], "--use-plugins must be a list of different plugin names, not 'a,a'"),
        (["--json"], "--json goes with --plugins\nhint: tf-serve --plugins --json"),
        (
            ["--api-key", "k", "--api-key-file", "f"],
            "--api-key and --api-key-file both give keys\nhint: use one of them",
        ),
    ],
)
def test_flags_that_do_not_fit(argv: list[str], message: str) -> None:
    assert said(*argv) == message


PLUGIN_HINT = "hint: a plugin's settings are a table of the settings file, [plugins.NAME]"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TF_PARALEL", "2", "the environment variable TF_PARALEL is no setting\nhint: did you mean TF_PARALLEL?"),
        ("TF_PROT", "2", "the environment variable TF_PROT is no setting\nhint: did you mean TF_PORT?"),
        ("TF_MODLE", "x", "the environment variable TF_MODLE is no setting\nhint: did you mean TF_MODEL?"),
        *(
            (name, "5", f"the environment variable {name} is no setting\n{PLUGIN_HINT}")
            for name in ("TF_PLUGINS", "TF_PLUGINS_COPY_LONGEST", "TF_PLUGINS__COPY__LONGEST")
        ),
        ("TF_PARALLEL", "many", "TF_PARALLEL must be a whole number from 1 up, or auto, not 'many'"),
        ("TF_DRAFTS", "perhaps", "TF_DRAFTS must be true or false, not 'perhaps'"),
    ],
)
def test_variables_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(name, value)
    assert said() == message


@pytest.mark.parametrize(
    ("value", "drafter"),
    [
        *((word, "") for word in ("1", "true", "True", "yes", "on")),
        *((word, None) for word in ("0", "false", "FALSE", "no", "off", "")),
        *((name, name) for name in ("2", "./1", "org/repo@v1")),
    ],
)
def test_the_drafter_by_variable_is_a_switch_or_a_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, value: str, drafter: str | None
) -> None:
    monkeypatch.setenv("TF_DRAFTER", value)
    assert load([]).settings.drafter == drafter
    file.write_text("drafter = 'd'\n")
    assert load(["--settings", "tf.toml"]).settings.drafter == ("d" if value == "" else drafter)


@pytest.mark.parametrize(
    "name",
    [
        # TensorFlow, Terraform, and this project's own that are no settings
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_ENABLE_ONEDNN_OPTS",
        "TF_CONFIG",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "TF_NUM_INTRAOP_THREADS",
        "TF_LOG",
        "TF_LOG_PATH",
        "TF_PLUGIN_CACHE_DIR",
        "TF_WORKSPACE",
        "TF_CACHE_DIR",
        "TF_TEST_BACKEND",
    ],
)
def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert load([]).settings.model_dump() == ServerSettings().model_dump()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paralel = 2", "tf.toml: paralel is no setting\nhint: did you mean parallel?"),
        (
            "served-model-name = ['a']",
            "tf.toml: served-model-name is no setting\nhint: did you mean served_model_name?",
        ),
        ("[server]\nport = 1", "tf.toml: server is no setting\nhint: tf-serve --print-settings lists the keys"),
        ("port = 'x'", "tf.toml: port must be a whole number from 0 to 65535, not 'x'"),
        ("port = true", "tf.toml: port must be a whole number from 0 to 65535, not True"),
        ("port = 1.5", "tf.toml: port must be a whole number from 0 to 65535, not 1.5"),
        ("model = 3", "tf.toml: model must be a name or a folder, not 3"),
        ("cors = [1]", f"tf.toml: cors must be {ORIGINS}, not [1]"),
        ("api_key = 5", f"tf.toml: api_key must be {A_KEY}"),
        ("drafter = ''", f"tf.toml: drafter must be {A_DRAFTER}, not ''"),
        ("drafter = 1", f"tf.toml: drafter must be {A_DRAFTER}, not 1"),
        ("drafter = 0", f"tf.toml: drafter must be {A_DRAFTER}, not 0"),
        ("drafter = 1.0", f"tf.toml: drafter must be {A_DRAFTER}, not 1.0"),
        (
            "plugins = ['llama']",
            "tf.toml: plugins must be tables, [plugins.<name>], not a list\n"
            "hint: the names of the plugins in use go in use_plugins or add_plugins",
        ),
        (
            "[plugins]\ncopy = 3",
            "tf.toml: plugins.copy must be a table, not a number\n"
            "hint: write the plugin's settings below a line [plugins.copy]",
        ),
    ],
)
def test_files_that_do_not_fit(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    assert said("--settings", "tf.toml") == message


def test_a_file_that_is_no_toml(file: Path) -> None:
    file.write_text("port = 1\nmodel = demo\n")
    message = said("--settings", "tf.toml")
    assert message.startswith("tf.toml: not a TOML file: ")
    assert "line 2" in message


def test_a_file_that_is_not_there(file: Path) -> None:
    assert said("--settings", "no.toml") == (
        "the settings file no.toml cannot be read: No such file or directory\n"
        "hint: give --settings the path of a TOML file"
    )


def test_plugin_tables_stay_as_they_are(file: Path) -> None:
    file.write_text("[plugins.mine]\nanything = [1, {a = 2}]\n")
    settings = load(["--settings", "tf.toml"]).settings
    assert settings.plugin_tables == {"mine": {"anything": [1, {"a": 2}]}}
    assert settings.file == "tf.toml"


def test_a_secret_is_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_API_KEY", "sesame")
    settings = load([]).settings
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sesame"
    assert "sesame" not in repr(settings)


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {}", "\t{} \n"])
def test_white_space_around_a_key_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch, around: str) -> None:
    monkeypatch.setenv("TF_API_KEY", around.format("sesame"))
    settings = load([]).settings
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sesame"


@pytest.mark.parametrize(
    "key", ["open sesame", "open\tsesame", "open\nsesame", "open\x1bsesame", "\ufeffsesame", "open\xa0sesame", " \n"]
)
def test_a_key_that_no_client_can_send_is_refused_untold(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("TF_API_KEY", key)
    assert said() == f"TF_API_KEY must be {A_KEY}"
    monkeypatch.delenv("TF_API_KEY")
    assert said(f"--api-key={key}") == f"--api-key must be {A_KEY}"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], ("serve", False)),
        (["--plugins"], ("plugins", False)),
        (["--plugins", "--json"], ("plugins", True)),
        (["--print-settings"], ("print-settings", False)),
        (["--version"], ("version", False)),
    ],
)
def test_actions(argv: list[str], expected: tuple[str, bool]) -> None:
    asked: Invocation = load(argv)
    assert (asked.action, asked.json) == expected


def test_added_plugins_are_asked_first() -> None:
    assert load(["--add-plugins", "mine"]).settings.plugins == (
        "mine",
        "llama",
        "llama-budget",
        "copy",
        "llama-drafter",
        "demo",
    )
    assert load(["--use-plugins", "a,b,c", "--add-plugins", "b"]).settings.plugins == ("b", "a", "c")


def test_origins_that_fit() -> None:
    fits = ("https://a.example", "http://127.0.0.1:3000", "http://[::1]:8080", "chrome-extension://abc", "null")
    assert load(["--cors", ",".join(fits)]).settings.cors == fits
    assert load(["--cors", "*"]).settings.cors == ("*",)
