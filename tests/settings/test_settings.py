"""Settings: precedence of layers, sources of values, and error messages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from kogniterm import settings
from kogniterm.errors import SettingsError, StorageError
from kogniterm.settings.layers import save_setting
from kogniterm.settings.schema import (
    MASK,
    Settings,
    flag_of,
    is_secret,
    names_of,
    system_names_of,
)
from tests.support.ordinary import ordinary

KEY = "sk-super-secret-value-0123456789"


class Home:
    """A user's folders, and the environment that points to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.config.mkdir()
        self.environ = {"HOME": str(folder), "KOGNITERM_CONFIG_DIR": str(self.config)}

    def toml(self, text: str) -> Path:
        return self._write(self.config / "config.toml", text)

    def env(self, text: str) -> Path:
        return self._write(self.config / ".env", text)

    def load(self, *, env_file: Path | None = None, **environ: str) -> Settings:
        return settings.load({}, environ=self.environ | environ, env_file=env_file)

    def wrong(self, **environ: str) -> str:
        with pytest.raises(SettingsError) as caught:
            self.load(**environ)
        return str(caught.value)

    def _write(self, file: Path, text: str) -> Path:
        file.write_text(text, encoding="utf-8")
        return file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# --- layers ----------------------------------------------------------------------------------


def test_each_layer_wins_over_the_next(home: Home) -> None:
    assert home.load().max_steps == 1000
    home.toml("max_steps = 1\n")
    assert home.load().max_steps == 1
    home.env("KOGNITERM_MAX_STEPS=2\n")
    assert home.load().max_steps == 2
    assert home.load(KOGNITERM_MAX_STEPS="3").max_steps == 3
    environ = home.environ | {"KOGNITERM_MAX_STEPS": "3"}
    assert settings.load({"max_steps": "4"}, environ=environ).max_steps == 4


def test_each_value_says_where_it_came_from(home: Home) -> None:
    config = home.toml('\n# comment\nplan = "never"\n')
    keys = home.env(f"\n\nexport OPENAI_API_KEY='{KEY}'\n")
    environ = home.environ | {"KOGNITERM_MEMORY": "off", "EDITOR": "nano"}
    loaded = settings.load({"model": "local", "theme": None}, environ=environ)
    assert str(loaded.origin("plan")) == f"{config}:3"
    assert str(loaded.origin("openai_api_key")) == f"{keys}:3"
    assert str(loaded.origin("memory")) == "environment KOGNITERM_MEMORY"
    assert str(loaded.origin("model")) == "flag --model"
    assert str(loaded.origin("editor")) == "system EDITOR"
    assert str(loaded.origin("theme")) == "default"


def test_the_names_of_providers_are_read_and_our_own_name_is_stronger(home: Home) -> None:
    loaded = home.load(GEMINI_API_KEY="gemini", OLLAMA_HOST="box:1234")
    assert loaded.google_api_key == SecretStr("gemini")
    assert str(loaded.origin("google_api_key")) == "environment GEMINI_API_KEY"
    both = home.load(GEMINI_API_KEY="gemini", KOGNITERM_GOOGLE_API_KEY="own")
    assert both.google_api_key == SecretStr("own")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("https://box/ollama/", "https://box:11434/ollama"),
        ("[::1]:5", "http://[::1]:5"),
    ],
)
def test_ollama_may_be_given_as_its_own_variable_allows(home: Home, given: str, meant: str) -> None:
    assert home.load(OLLAMA_HOST=given).ollama_base_url == meant


def test_an_empty_value_is_no_value(home: Home) -> None:
    home.toml('model = ""\n')
    home.env("KOGNITERM_PLAN=\n")
    loaded = home.load(KOGNITERM_MEMORY="", GOOGLE_API_KEY="", GEMINI_API_KEY="x")
    assert (loaded.model, loaded.plan, loaded.memory) == (None, "auto", "full")
    assert loaded.google_api_key == SecretStr("x")


def test_what_the_system_says_gives_way_to_the_users_files(home: Home) -> None:
    assert home.load(NO_COLOR="1").color == "never"
    home.toml('color = "always"\n')
    assert home.load(NO_COLOR="1").color == "always"


def test_the_working_folder_is_not_read(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("KOGNITERM_APPROVAL_MODE=auto\nOPENAI_BASE_URL=http://evil\n")
    (project / "config.toml").write_text('approval_mode = "auto"\n')
    monkeypatch.chdir(project)
    loaded = home.load()
    assert (loaded.approval_mode, loaded.openai_base_url) == ("manual", None)


def test_the_process_environment_is_not_read_behind_our_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOGNITERM_PLAN", "never")
    monkeypatch.setenv("PLAN", "never")
    assert home.load().plan == "auto"
    assert Settings().plan == "auto"


def test_a_given_env_file_takes_the_place_of_the_usual_one(home: Home, tmp_path: Path) -> None:
    home.env("KOGNITERM_PLAN=never\n")
    given = tmp_path / "shared.env"
    given.write_text("DJANGO_SECRET=1\nKOGNITERM_MAX_STEPS=7\n")
    loaded = home.load(env_file=given)
    assert (loaded.plan, loaded.max_steps) == ("auto", 7)


def test_env_files_are_literal(home: Home) -> None:
    home.env("KOGNITERM_EDITOR='vi -c \"x\"'\nOPENAI_API_KEY=${HOME}\n")
    loaded = home.load()
    assert loaded.editor == 'vi -c "x"'
    assert loaded.openai_api_key == SecretStr("${HOME}")


def test_markers_for_our_own_children_are_no_settings(home: Home) -> None:
    assert home.load(KOGNITERM_SESSION="abc").plan == "auto"


# --- mistakes --------------------------------------------------------------------------------


def test_an_unknown_key_names_file_line_and_the_nearest_one(home: Home) -> None:
    file = home.toml('model = "local"\n\nmax_step = 3\n')
    assert home.wrong() == f"{file}, line 3: unknown setting max_step; did you mean max_steps?"


def test_a_setting_of_an_earlier_version_is_named_where_it_is(home: Home) -> None:
    variable = "The setting fold_lines (the variable KOGNITERM_FOLD_LINES) was removed; delete it."
    assert home.wrong(KOGNITERM_FOLD_LINES="20") == variable
    file = home.toml('theme = "dark"\nnotify_after = 5\n')
    assert home.wrong() == f"The setting notify_after ({file}:2) was removed; delete it."
    home.env("KOGNITERM_MODEL_CACHE_MB=8\n")
    assert "model_cache_mb" in home.wrong()


def test_an_unknown_table_is_an_unknown_key(home: Home) -> None:
    file = home.toml("plan = 'auto'\n[limits]\nmax_steps = 3\n")
    assert home.wrong().startswith(f"{file}, line 2: unknown setting limits")


def test_an_unknown_name_in_the_env_file_names_its_line(home: Home) -> None:
    file = home.env("# keys\n\nGOOGLE_API_KY=x\n")
    assert home.wrong() == (
        f"{file}, line 3: unknown setting GOOGLE_API_KY; did you mean GOOGLE_API_KEY?"
    )


def test_an_unknown_variable_with_our_prefix_is_a_mistake(home: Home) -> None:
    assert home.wrong(KOGNITERM_PLN="never") == (
        "The environment variable KOGNITERM_PLN is not a setting; did you mean KOGNITERM_PLAN?"
    )
    assert "config show" in home.wrong(KOGNITERM_QWXYZQ="1")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('plan = "sometimes"', "plan is sometimes, but must be one of auto, always, never."),
        ('max_steps = "many"', "max_steps is many, but must be a whole number."),
        ("max_steps = 0", "max_steps is 0, but must be greater than 0."),
        ("max_steps = true", "max_steps is true, but must be something other than true or false."),
        ("max_steps = 1.5", "max_steps is 1.5, but must be a whole number."),
        ("temperature = 3", "temperature is 3, but must be at most 2."),
        ("temperature = nan", "temperature: must be a finite number."),
        ('allow_reads = "perhaps"', "allow_reads is perhaps, but must be true or false."),
        ("model = 3", "model is 3, but must be text."),
        ("model = ['a']", "model is ['a'], but must be text."),
    ],
)
def test_a_wrong_value_names_file_line_and_what_was_wanted(
    home: Home, line: str, problem: str
) -> None:
    file = home.toml(f"# first\n{line}\n")
    assert home.wrong() == f"{file}, line 2: {problem}"


@pytest.mark.parametrize("url", ["http://[::1/v1", "http://h:99999/v1", "http://a b/", "http://"])
def test_an_address_that_is_none_is_named(home: Home, url: str) -> None:
    assert home.wrong(OPENAI_BASE_URL=url).startswith(f"OPENAI_BASE_URL is {url}, but must be a v")
    if " " not in url:
        assert home.wrong(OLLAMA_HOST=url).startswith(f"OLLAMA_HOST is {url}, but must be a host")


def test_a_wrong_flag_or_variable_is_named(home: Home) -> None:
    assert home.wrong(GOOGLE_GEMINI_BASE_URL="gopher://x") == (
        "GOOGLE_GEMINI_BASE_URL is gopher://x, but must be a valid URL that starts with http:// or "
        "https://."
    )
    with pytest.raises(SettingsError, match=r"^--timeout is soon, but must be a number\.$"):
        settings.load({"max_seconds": "soon"}, environ=home.environ)


def test_a_weaker_layer_is_not_blamed_for_a_stronger_one(home: Home) -> None:
    home.toml("max_steps = 3\n")
    assert home.wrong(KOGNITERM_MAX_STEPS="x").startswith("KOGNITERM_MAX_STEPS is x")


def test_a_wrong_secret_is_not_shown(home: Home) -> None:
    home.toml(f"openai_api_key = ['{KEY}']\n")
    message = home.wrong()
    assert KEY not in message
    assert MASK in message


def test_bad_toml_names_the_line(home: Home) -> None:
    file = home.toml('plan = "auto"\nmax_steps = \n')
    assert home.wrong().startswith(f"{file}, line 2: ")
    file = home.toml('plan = "auto"\nx = """open\n')
    assert home.wrong().startswith(f"{file}, line 3: ")


def test_a_bad_line_in_the_env_file_is_named(home: Home) -> None:
    file = home.env("# fine\nGOOGLE_API_KEY\n")
    assert home.wrong() == f"{file}, line 2: expected NAME=value."


@pytest.mark.parametrize("name", ["config.toml", ".env"])
def test_a_file_that_is_not_text_or_cannot_be_read_is_named(home: Home, name: str) -> None:
    file = home.config / name
    file.write_bytes(b"# ok\n\xff\xfe\n")
    assert home.wrong() == f"{file}, line 2: the file is not UTF-8 text."
    file.unlink()
    file.mkdir()
    assert home.wrong() == f"{file} cannot be read: it is a folder."


def test_a_given_env_file_must_exist(home: Home, tmp_path: Path) -> None:
    missing = tmp_path / "no.env"
    with pytest.raises(SettingsError, match=f"{missing} cannot be read: no such file"):
        home.load(env_file=missing)


# --- the object ------------------------------------------------------------------------------


def test_settings_are_frozen(home: Home) -> None:
    loaded = home.load()
    with pytest.raises(ValidationError):
        loaded.plan = "never"  # type: ignore[misc]


def test_secrets_are_masked_everywhere(home: Home) -> None:
    names = [name for name in Settings.model_fields if is_secret(name)]
    keys = {"google_api_key", "openai_api_key", "anthropic_api_key", "brave_api_key"}
    assert keys | {"github_token", "database_url"} == set(names)
    values = {names_of(name)[0]: KEY for name in names}
    loaded = home.load(**values | {"KOGNITERM_DATABASE_URL": f"postgresql://me:{KEY}@host/db"})
    assert all(loaded.mask()[name] == MASK for name in names)
    for shown in (repr(loaded), str(loaded), loaded.model_dump_json(), str(loaded.mask())):
        assert KEY not in shown


def test_no_variable_sets_two_settings() -> None:
    names = [
        variable
        for field in Settings.model_fields
        for variable in (*names_of(field), *system_names_of(field))
    ]
    assert len(names) == len(set(names))


def test_every_setting_says_what_it_does() -> None:
    for name, field in Settings.model_fields.items():
        assert str(field.description).endswith("."), name


def test_every_flag_of_a_setting_exists_and_the_other_way_round() -> None:
    from kogniterm.cli.options import GENERAL, HOSTS, SESSION

    every = (*GENERAL, *SESSION, *HOSTS)
    options = {o.field: o.name for o in every if o.field in Settings.model_fields}
    assert options == {name: flag_of(name) for name in Settings.model_fields if flag_of(name)}


# --- the tolerant reader ---------------------------------------------------------------------


def test_the_tolerant_reader_agrees_with_the_full_one(home: Home) -> None:
    home.toml('theme = "light"\nkeys = "vi"\nscreen_reader = true\n')
    home.env("export KOGNITERM_LANGUAGE='es'\n")
    environ = home.environ | {"KOGNITERM_MODEL": "local", "NO_COLOR": "1", "EDITOR": "nano"}
    first = settings.quick(environ)
    full = settings.load({}, environ=environ)
    shared = set(Settings.model_fields) & set(first._fields)
    assert len(shared) > 10
    for name in shared - {"pager"}:
        assert getattr(first, name) == getattr(full, name), name


def test_the_tolerant_reader_never_fails_on_what_is_wrong(home: Home) -> None:
    home.toml("keys = = =\n")
    home.env("what is this\n")
    first = settings.quick(home.environ | {"KOGNITERM_KEYS": "nano", "KOGNITERM_COLOR": "pink"})
    assert (first.keys, first.color, first.language) == ("emacs", "auto", "en")


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({"LANG": "es_MX.UTF-8"}, "es"),
        ({"LANG": "es_ES", "LC_ALL": "en_GB.UTF-8"}, "en"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": "en_US", "LC_MESSAGES": "es"}, "es"),
        ({}, "en"),
    ],
)
def test_the_language_follows_the_locale(
    home: Home, environ: dict[str, str], language: str
) -> None:
    assert settings.quick(home.environ | environ).language == language
    assert settings.quick(home.environ | environ, {"language": "es"}).language == "es"


def test_the_tolerant_reader_needs_the_standard_library_alone() -> None:
    program = (
        "import sys; from kogniterm.settings import quick; quick({'HOME': '/nowhere'});"
        "print(sorted({m.partition('.')[0] for m in sys.modules}"
        " - set(sys.stdlib_module_names) - {'kogniterm', '__main__'}))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert result.stdout.strip() == "[]"


# --- saving one setting ----------------------------------------------------------------------


def test_a_saved_setting_is_read_back_and_the_rest_stays(home: Home) -> None:
    file = home.toml('# mine\ntheme = "dark"  # for now\nplan = "never"\n')
    save_setting(file, "theme", "light")
    save_setting(file, "screen_reader", True)
    save_setting(file, "max_steps", 30)
    assert file.read_text().splitlines() == [
        "# mine",
        'theme = "light"  # for now',
        'plan = "never"',
        "screen_reader = true",
        "max_steps = 30",
    ]
    loaded = home.load()
    assert (loaded.theme, loaded.screen_reader, loaded.max_steps) == ("light", True, 30)


def test_the_first_saved_setting_makes_the_file(home: Home) -> None:
    file = home.config / "config.toml"
    save_setting(file, "theme", "light")
    assert home.load().theme == "light"
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", ['a "quoted" \\ word', "línea\nnueva", "tab\t\x7f", "# no"])
def test_any_text_survives_saving(home: Home, value: str) -> None:
    file = home.toml("x = 1\n")
    save_setting(file, "editor", value)
    assert tomllib.loads(file.read_text()) == {"x": 1, "editor": value}


def test_a_new_setting_goes_before_the_first_table(home: Home) -> None:
    file = home.toml("[table]\ntheme = 'dark'\n")
    save_setting(file, "theme", "light")
    assert tomllib.loads(file.read_text()) == {"theme": "light", "table": {"theme": "dark"}}


def test_a_link_is_followed_and_its_permissions_stay(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("plan = 'never'\n")
    target.chmod(0o640)
    link = home.config / "config.toml"
    link.symlink_to(target)
    save_setting(link, "theme", "light")
    assert link.is_symlink()
    assert "light" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("text", ['theme = """a\nb"""\n', "[broken\n"])
def test_a_file_that_cannot_be_changed_safely_is_left_alone(home: Home, text: str) -> None:
    file = home.toml(text)
    with pytest.raises(SettingsError):
        save_setting(file, "plan" if text.startswith("[") else "theme", "light")
    assert file.read_text() == text
    assert list(home.config.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_is_a_sentence(home: Home) -> None:
    (home.folder / "taken").write_text("a file in the way")
    with pytest.raises(StorageError, match=r"cannot be written: "):
        save_setting(home.folder / "taken" / "config.toml", "theme", "light")


def test_a_folder_of_settings_that_may_not_be_entered_is_told(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config").chmod(0o000)
    environ = {"HOME": str(tmp_path), "KOGNITERM_CONFIG_DIR": str(tmp_path / "config")}
    with ordinary(), pytest.raises(SettingsError, match=r"config/.* cannot be read: permission"):
        settings.load({}, environ=environ)
    (tmp_path / "config").chmod(0o700)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"HTTP_PROXY": "a:1"}, {"http://": "http://a:1"}),
        ({"HTTP_PROXY": "http://a:1", "http_proxy": "http://b:2"}, {"http://": "http://b:2"}),
        ({"ALL_PROXY": "socks5://a:1", "NO_PROXY": "x.org, *"}, {}),
        (
            {
                "NO_PROXY": "x.org,LOCALHOST,127.0.0.1,::1,[::2],http://a.org,.b.org,*.c.org:80,[::3]:1"
            },
            dict.fromkeys(
                (
                    "all://*x.org",
                    "all://LOCALHOST",
                    "all://127.0.0.1",
                    "all://[::1]",
                    "all://[::2]",
                    "http://*a.org",
                    "all://*.b.org",
                    "all://*.c.org:80",
                    "all://[::3]:1",
                )
            ),
        ),
        # Of these httpx knows nothing, or raises.
        (
            {"NO_PROXY": "10.0.0.0/8,fd00::/8,1:2:3,[,x:y,<local>,192.168.*,a b,\u00e4.org,,[x]:1"},
            {},
        ),
    ],
)
def test_proxies_are_read_as_httpx_needs_them(
    given: dict[str, str], found: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert settings.proxies() == found
    httpx.AsyncClient(mounts=dict.fromkeys(settings.proxies()), trust_env=False)


@pytest.mark.parametrize("url", ["ftp://u:tortuga@h:1", "u:tortuga@h:x", "http://[::1", "http://"])
def test_a_variable_that_names_no_proxy_is_named_without_its_value(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", url)
    with pytest.raises(SettingsError, match="The proxy in https_proxy is not") as raised:
        settings.proxies()
    assert "tortuga" not in str(raised.value)
