"""Every setting of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, CliPositionalArg, PydanticBaseSettingsSource, SettingsConfigDict

from tf_host.settings.fields import Names, UserPath, is_key, setting
from tf_host.settings.origin import DEFAULT, Origin, flag

# Copies are asked before the drafter: they cost nothing.
DEFAULT_PLUGINS = ("llama", "llama-budget", "copy", "llama-drafter", "demo")

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\sA-Z]+")

_SWITCHES = frozenset({"drafts", "compile", "reprobe", "drafter"})


class ServerSettings(BaseSettings):
    """What the server was told, checked field by field.

    ``load`` reads the sources. Made directly, an instance takes its arguments and defaults and looks at nothing else.
    """

    model_config = SettingsConfigDict(
        env_prefix="TF_",
        extra="forbid",
        frozen=True,
        cli_avoid_json=True,
        cli_hide_none_type=True,
        cli_implicit_flags="dual",
        cli_kebab_case=True,
    )

    # the pair
    model: CliPositionalArg[str] = setting(
        "demo",
        "what to serve: a plugin's name, a local folder, or a hub name org/repo[@revision]",
        expected="a name or a folder",
        metavar="MODEL",
        min_length=1,
    )
    family: str | None = setting(
        None,
        "model family; by default the first that recognises MODEL",
        expected="a family's name",
        metavar="NAME",
        min_length=1,
    )
    drafter: str | None = setting(
        None,
        "drafter: a name, folder or hub name, once MODEL is named (before it, in a settings file or by TF_MODEL) or as "
        "--drafter=NAME; alone, the one that goes with MODEL (true in a settings file or TF_DRAFTER)",
        expected="a name or a folder, or true for the one that goes with the model",
        metavar="[DIR]",
    )
    drafts: bool = setting(True, "draft at all; without, neither drafter nor copies are used", expected="true or false")
    draft_depth: int | None = setting(
        None,
        "always draft this many tokens, from 1 to 15; by default what pays is measured",
        expected="a whole number from 1 to 15",
        metavar="N",
        ge=1,
        le=15,
    )
    drafter_bits: str | None = setting(
        None,
        "accepted for other servers' command lines; not read: a Llama drafter is served as it is stored",
        expected="a value",
        metavar="N",
        coerce_numbers_to_str=True,
    )

    # the address
    host: str = setting("127.0.0.1", "address to listen on", expected="an address", metavar="ADDRESS", min_length=1)
    port: int = setting(
        8080,
        "port to listen on; 0 takes a free one",
        expected="a whole number from 0 to 65535",
        metavar="PORT",
        ge=0,
        le=65_535,
    )
    served_model_name: Names = setting(
        (),
        "names that requests may use for the model, the first one shown; by default the model's own",
        expected="a list of different names",
        metavar="NAME,...",
    )

    # streams and memory
    context: int | None = setting(
        None,
        "longest prompt and reply together, in tokens; by default the model's own",
        expected="a whole number of tokens from 64 up",
        metavar="TOKENS",
        ge=64,
    )
    parallel: int | Literal["auto"] | None = setting(
        None,
        "streams decoded together, or auto for as many as fit; by default 2 on a CPU and 8 on a GPU",
        expected="a whole number from 1 up, or auto",
        metavar="N",
    )
    queue: int = setting(
        64,
        "requests that may wait for a lane; one more gets HTTP 503",
        expected="a whole number from 0 up",
        metavar="N",
        ge=0,
    )
    memory_gib: float | None = setting(
        None,
        "memory for everything, weights included, in GiB; by default 70% of RAM or of the GPU's working set",
        expected="a number above 0",
        metavar="GIB",
        gt=0,
        allow_inf_nan=False,
    )
    prompt_cache_gib: float | None = setting(
        None,
        "memory for kept prompt states in GiB, 0 for none; by default what the budget leaves idle",
        expected="a number from 0 up",
        metavar="GIB",
        ge=0,
        allow_inf_nan=False,
    )
    prompt_cache_dir: UserPath | None = setting(
        None, "folder where kept prompt states outlive the server", expected="a folder", metavar="DIR"
    )
    decode_share: float = setting(
        0.25,
        "share of the time that running replies keep while prompts are read",
        expected="a number from 0 up to but not including 1",
        metavar="SHARE",
        ge=0,
        lt=1,
        allow_inf_nan=False,
    )

    # the device
    device: Literal["auto", "cpu"] = setting(
        "auto",
        "what MLX computes on: auto, the GPU that it is installed for, or cpu",
        expected="auto or cpu",
        metavar="auto|cpu",
    )
    cpu_blas: Literal["auto", "mkl", "none", "mkl-plain"] = setting(
        "auto",
        "matrix library on a CPU: mkl (float32), none (MLX's own), or auto: mkl where it is installed",
        expected="auto, mkl or none",
        metavar="auto|mkl|none",
    )
    cpu_threads: int | None = setting(
        None,
        "threads of the matrix library; by default the physical cores that this process may use",
        expected="a whole number from 1 up",
        metavar="N",
        ge=1,
    )
    dtype: Literal["float32", "bfloat16", "float16"] | None = setting(
        None,
        "dtype that weights are served in; by default as stored, and float32 with MKL",
        expected="float32, bfloat16 or float16",
        metavar="DTYPE",
    )
    compile: bool | None = setting(
        None, "compile forwards; by default wherever the device can", expected="true or false"
    )
    reprobe: bool = setting(
        False, "measure exactness again instead of using the kept verdict", expected="true or false"
    )

    # plugins
    use_plugins: Names = setting(
        DEFAULT_PLUGINS,
        "plugins to load, in the order that they are asked",
        expected="a list of different plugin names",
        metavar="NAME,...",
    )
    add_plugins: Names = setting(
        (),
        "more plugins, asked before those of use_plugins",
        expected="a list of different plugin names",
        metavar="NAME,...",
    )

    # sampling defaults, over the checkpoint's generation_config.json
    temperature: float | None = setting(
        None, "default temperature", expected="a number from 0 up", metavar="T", ge=0, allow_inf_nan=False
    )
    top_p: float | None = setting(
        None, "default top_p; 1 is off", expected="a number above 0 and up to 1", metavar="P", gt=0, le=1
    )
    top_k: int | None = setting(None, "default top_k; 0 is off", expected="a whole number from 0 up", metavar="K", ge=0)
    min_p: float | None = setting(
        None, "default min_p; 0 is off", expected="a number from 0 to 1", metavar="P", ge=0, le=1
    )
    repetition_penalty: float | None = setting(
        None,
        "default repetition penalty; 1 is off",
        expected="a number from 0.01 to 100",
        metavar="X",
        ge=0.01,
        le=100,
    )
    presence_penalty: float | None = setting(
        None, "default presence penalty; 0 is off", expected="a number from -2 to 2", metavar="X", ge=-2, le=2
    )
    frequency_penalty: float | None = setting(
        None, "default frequency penalty; 0 is off", expected="a number from -2 to 2", metavar="X", ge=-2, le=2
    )
    chat_template: UserPath | None = setting(
        None, "file with the chat template to use instead of the checkpoint's", expected="a file", metavar="FILE"
    )

    # the HTTP side
    api_key: SecretStr | None = setting(
        None,
        "key that every request must carry; the process list shows flags, so prefer TF_API_KEY or a file",
        expected="a key of printable characters without white space; leave it out to serve without one",
        metavar="KEY",
        min_length=1,
    )
    api_key_file: UserPath | None = setting(
        None,
        "file with one key a line, readable by its owner only, read again when it changes",
        expected="a file",
        metavar="FILE",
    )
    cors: Names = setting(
        (),
        "origins that browsers may call from",
        expected="different origins of the form https://host[:port], or *",
        metavar="ORIGIN,...",
    )
    grace: float = setting(
        30.0,
        "seconds that running replies get to finish after SIGTERM",
        expected="a number of seconds from 0 up",
        metavar="SECONDS",
        ge=0,
        allow_inf_nan=False,
    )
    max_body_mib: float = setting(
        16.0,
        "largest request body in MiB; a larger one gets HTTP 413",
        expected="a number above 0",
        metavar="MIB",
        gt=0,
        allow_inf_nan=False,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "least level that is logged", expected="debug, info, warning or error", metavar="LEVEL"
    )

    _origins: Mapping[str, Origin] = PrivateAttr(default_factory=dict)
    _tables: Mapping[str, Mapping[str, Any]] = PrivateAttr(default_factory=dict)
    _file: str | None = PrivateAttr(default=None)

    @classmethod
    def from_sources(
        cls,
        values: Mapping[str, Any],
        *,
        origins: Mapping[str, Origin],
        tables: Mapping[str, Mapping[str, Any]],
        file: str | None,
    ) -> Self:
        """Settings that know where each value came from; ``pydantic.ValidationError`` for a wrong one."""
        made = cls(**values)
        made._origins, made._tables, made._file = dict(origins), dict(tables), file
        return made

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments only: ``load`` reads each source by itself, to know which one gave a value."""
        return (init_settings,)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins in use, in the order that they are asked."""
        return (*self.add_plugins, *(name for name in self.use_plugins if name not in self.add_plugins))

    @property
    def plugin_tables(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings file's ``[plugins.<name>]`` tables, not parsed yet."""
        return self._tables

    @property
    def file(self) -> str | None:
        """The settings file as it was named, or ``None``."""
        return self._file

    def origin(self, field: str) -> Origin:
        """Where a field's value came from."""
        return self._origins.get(field, DEFAULT)

    def named(self, field: str) -> str:
        """How messages name a field: by what gave its value, and by its flag where nothing did."""
        origin = self.origin(field)
        return flag(field) if origin is DEFAULT else origin.name

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_value(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and info.field_name not in _SWITCHES:  # pydantic would read true as 1
            raise ValueError("a switch")
        return value

    @field_validator("drafter", mode="before")
    @classmethod
    def _bare_drafter(cls, value: object) -> object:
        """``True`` is the drafter that goes with the model, written ``""``; ``False`` is none."""
        if value is True or value == "true":  # 1 equals True and is no name
            return ""
        return None if value is False or value == "false" else value

    @field_validator("api_key")
    @classmethod
    def _one_word(cls, value: SecretStr | None) -> SecretStr | None:
        """Secrets mounted as files end in a line end, which no client sends."""
        if value is None:
            return None
        key = value.get_secret_value().strip()
        if not is_key(key):
            raise ValueError("no key")
        return SecretStr(key)

    @field_validator("parallel")
    @classmethod
    def _at_least_one(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and value < 1:
            raise ValueError("below 1")
        return value

    @field_validator("cors")
    @classmethod
    def _as_browsers_send_them(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Origins are compared as texts, so another spelling would never match."""
        if not all(_ORIGIN.fullmatch(origin) for origin in value):
            raise ValueError("no origin")
        return value

    @field_validator("use_plugins")
    @classmethod
    def _some_plugin(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("no plugin")
        return value
