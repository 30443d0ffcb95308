"""The files whose content decides what a command runs, named from the command's text alone.

A Makefile, a script or a hook can change between the approval of a command and its start; then what
runs would not be what was approved. `watch` names these files for each program that starts. They
are hashed when the command is judged and compared when it starts. A file that does not exist is
named too: a `GNUmakefile` that appears replaces the `Makefile`.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.command_options import Parsed, Rules, parse_options, parse_table
from kogniterm.approval.analysis.expansion import Argument
from kogniterm.approval.analysis.name_tables import names
from kogniterm.approval.analysis.path_kinds import HOLE, within
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.scripts import SHELLS, shell_options

TABLE = """
make gmake bmake: files GNUmakefile makefile Makefile BSDmakefile *.mk; read f file makefile;
    folder C directory; value j I o W E
ninja samu: files build.ninja; read f; folder C; value j k l
cmake: files CMakeLists.txt CMakePresets.json CMakeUserPresets.json *.cmake Makefile build.ninja;
    folder S B build; read P C; value D G T A; operand-folder @
ctest cpack: files CTestTestfile.cmake CPackConfig.cmake; folder test-dir
meson: files meson.build meson_options.txt build.ninja; folder C; operand-folder @
scons: files SConstruct Sconstruct sconstruct SConscript; read f file; folder C directory
bazel bazelisk: files ^WORKSPACE ^WORKSPACE.bazel ^MODULE.bazel ^.bazelrc BUILD BUILD.bazel
just: files ^justfile ^Justfile ^.justfile ^.env; read f justfile; folder d working-directory
task go-task: files ^Taskfile.yml ^Taskfile.yaml ^taskfile.yml ^taskfile.yaml ^Taskfile.dist.yml
    ^Taskfile.dist.yaml; read t taskfile; folder d dir
rake: files ^Rakefile ^rakefile ^Rakefile.rb ^rakefile.rb; read f rakefile
bundle rails: files ^Gemfile ^Gemfile.lock ^.bundle/config ^config/boot.rb ^bin/rails; read gemfile
npm pnpm yarn npx pnpx bunx bun: files ^package.json ^.npmrc ^.yarnrc ^.yarnrc.yml ^.pnpmfile.cjs
    ^pnpm-workspace.yaml ^bunfig.toml; folder prefix C dir cwd; operand @
deno: files ^deno.json ^deno.jsonc ^import_map.json; read c config import-map; operand @
node tsx ts-node: script ^package.json; read r require import loader experimental-loader env-file;
    text e eval p print; value C conditions
jest vitest mocha vite webpack eslint prettier rollup tsc parcel turbo nx gulp grunt: files
    ^package.json ^tsconfig.json ^jest.config.* ^vitest.config.* ^vite.config.* ^.mocharc.*
    ^webpack.config.* ^.eslintrc* ^eslint.config.* ^.prettierrc* ^prettier.config.* ^rollup.config.*
    ^turbo.json ^nx.json gulpfile.* Gruntfile.*; read c config p project; operand @
pytest py.test: files ^conftest.py ^pytest.ini ^pyproject.toml ^tox.ini ^setup.cfg; read c
    config-file; folder rootdir; value k m p n o W; operand-tests @
tox: files tox.ini pyproject.toml setup.cfg setup.py; read c conf
nox: files noxfile.py; read f noxfile
pip pip3: files pyproject.toml setup.py setup.cfg; read r requirement c constraint; operand-folder
    @; folder e editable
uv poetry pdm hatch rye pipenv: files ^pyproject.toml ^uv.toml ^poetry.toml ^uv.lock ^Pipfile
    setup.py; folder directory project C; operand @
python python2 python3 pypy pypy3 ipython: script; value W X; text c; module= m
perl: script; text e E; value I M m C
ruby irb: script; text e; read r; value I C E
php: script; text r; read f c; value d
lua luajit: script; text e; value l
Rscript R: script; text e; read f file
julia groovy tclsh wish expect guile racket sbcl swift kotlin octave elixir iex osascript gnuplot:
    script; text e c eval
java: script; read jar; value cp classpath p module-path m
cargo: files ^Cargo.toml ^Cargo.lock ^build.rs ^.cargo/config.toml ^.cargo/config
    ^rust-toolchain.toml ^rust-toolchain; read manifest-path config; folder C
go: files ^go.mod ^go.work *.go; folder C; operand @
mvn mvnw: files pom.xml .mvn/extensions.xml .mvn/jvm.config .mvn/maven.config; read f file s
    settings
gradle gradlew: files ^build.gradle ^build.gradle.kts ^settings.gradle ^settings.gradle.kts
    ^gradle.properties ^init.gradle; read b build-file I init-script c; folder p project-dir
ant: files build.xml build.properties; read f file buildfile
sbt: files build.sbt project/*.sbt project/*.scala project/build.properties
mix: files ^mix.exs config/*.exs
stack cabal: files ^stack.yaml ^package.yaml *.cabal cabal.project Setup.hs
composer: files composer.json composer.lock; folder d working-dir
dotnet msbuild: files ^Directory.Build.props ^Directory.Build.targets *.csproj *.fsproj *.sln
docker podman nerdctl docker-compose podman-compose: files Dockerfile Containerfile .dockerignore
    docker-compose.yml docker-compose.yaml compose.yaml compose.yml docker-compose.override.yml
    docker-compose.override.yaml compose.override.yaml compose.override.yml .env; read f file
    env-file; folder project-directory; operand-folder @
ansible ansible-playbook ansible-galaxy: files ^ansible.cfg; read i inventory r; value e t l u;
    operand @
vagrant: files ^Vagrantfile
packer terraform tofu: files *.tf *.tfvars *.tf.json *.pkr.hcl; folder chdir; read var-file
pulumi helm skaffold tilt: files Pulumi.yaml Chart.yaml values.yaml skaffold.yaml Tiltfile; read f
    values; operand-folder @
kubectl oc: files; read f filename k kustomize
pre-commit: files ^.pre-commit-config.yaml; read c config
git: files ^.git ^.git/config ^.git/config.worktree ^.git/hooks/* ^.husky/* ^.pre-commit-config.yaml
    ^.gitattributes ^.git/info/attributes ^.gitmodules; folder C git-dir work-tree; read F file
direnv: files ^.envrc
sed gsed awk gawk mawk nawk: files; read f file i include E exec
gdb lldb: files ^.gdbinit ^.lldbinit; read x command s source; operand @
psql mysql mariadb sqlite3 duckdb mongosh: files; read f file init
source .: script
crontab at batch: files; read f; operand @
xargs parallel: files; read a arg-file
curl: files; read K config
ssh scp sftp rsync: files; read F
m4 bc dc ed ex: files; read f file; operand @
"""
"""Which files decide, by program: `names: files NAME…`, or `script NAME…` for what runs its first
operand.

`^` before a name: the parent folders up to the workspace are looked into too. Options: `read` names
such a file, `folder` the folder in which the names are looked for, `text` is followed by code. With
`operand @` every operand is such a file, with `operand-folder @` a folder that holds the names,
with `operand-tests @` both.
"""
_READS_COMMANDS = names(
    """
    xargs parallel ssh docker podman nerdctl kubectl psql mysql mariadb sqlite3 duckdb mongo mongosh
    at batch crontab gdb lldb ed ex ftp sftp lftp bc dc m4 eval
    """
)
"""Programs that take commands from their standard input or from words other programs printed."""
_SINGLE_DASH = frozenset({"java", "ant", "terraform", "tofu", "packer"})
_INPUT = re.compile(r"-?|/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
"""Names of what a program is given to read, which is no file of its own."""


@functools.cache
def _table() -> Mapping[str, Rules]:
    return parse_table(TABLE)


def watch(call: Call) -> None:
    """Note the files that decide what `call` runs."""
    if call.name in SHELLS:
        _shell(call)
        return
    if call.name in _READS_COMMANDS:
        call.findings.runs_input()
    rules = _table().get(call.name)
    if rules is None:
        return
    script = rules.base == "script"
    parsed = parse_options(call.args, rules, operands_end=script, single=call.name in _SINGLE_DASH)
    given = {
        action: [value.value for value in parsed.given(action)]
        for action in ("read", "folder", "text", "module")
    }
    folders = ["", *given["folder"], *_operand_folders(rules, parsed)]
    _note(call, [*rules.detail.split(), *_operand_files(rules, parsed)], folders)
    if any(map(_INPUT.fullmatch, [*given["read"], *_operand_files(rules, parsed)])):
        call.findings.runs_input()
    _note(call, given["read"], ["", *given["folder"]])
    if script:
        _script(call, given, parsed)


def run_file(call: Call, path: str) -> None:
    """Note the program at `path`, which is itself a file that may change."""
    _note(call, [path], [""])


def _shell(call: Call) -> None:
    given = list(call.args)
    while len(given) > 1 and given[0].value in {"--rcfile", "--init-file"}:
        _note(call, [given[1].value], [""])
        del given[:2]
    letters, args = shell_options(tuple(given))
    if "c" in letters:
        if args and HOLE in args[0].value:
            call.findings.runs_input()
        return
    _script_file(call, args[0] if args and "s" not in letters else None)


def _script(call: Call, given: Mapping[str, list[str]], parsed: Parsed) -> None:
    """The module or the first operand of an interpreter, or what it reads."""
    if given["module"]:
        module = given["module"][0]
        path = module.replace(".", "/")
        _note(call, [f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"], [""])
        if module != call.name:
            watch(replace(call, name=module, args=_behind(call.args, module)))
    elif given["text"]:
        if any(HOLE in text for text in given["text"]):
            call.findings.runs_input()
    elif not given["read"] or parsed.operands:
        _script_file(call, parsed.operands[0] if parsed.operands else None)


def _behind(args: tuple[Argument, ...], module: str) -> tuple[Argument, ...]:
    """The arguments that follow the name of a module, which `-m` may be attached to."""
    at = next((i for i, arg in enumerate(args) if arg.value.endswith(module)), len(args))
    return args[at + 1 :]


def _script_file(call: Call, script: Argument | None) -> None:
    if script is None or _INPUT.fullmatch(script.value) or HOLE in script.value:
        call.findings.runs_input()
    else:
        _note(call, [script.value], [""])


def _operand_files(rules: Rules, parsed: Parsed) -> list[str]:
    if rules.options.get("@") not in {"operand", "operand-tests"}:
        return []
    return [word.value.partition("::")[0] for word in parsed.operands]


def _operand_folders(rules: Rules, parsed: Parsed) -> list[str]:
    """Operands that are folders in which a program looks for its files."""
    kind = rules.options.get("@", "")
    operands = [word.value.partition("::")[0] for word in parsed.operands]
    if kind == "operand-tests":
        return [posixpath.dirname(word) if word.endswith(".py") else word for word in operands]
    if kind != "operand-folder":
        return []
    return [word for word in operands if "/" in word or word == ".."] + operands[-1:]


def _note(call: Call, files: Iterable[str], folders: Iterable[str]) -> None:
    bases = list(dict.fromkeys(folders))
    for name in files:
        for base in bases:
            tail = name.removeprefix("^")
            written = posixpath.join(base, tail)
            if HOLE in written or "://" in written or _INPUT.fullmatch(tail):
                continue
            _decides(call, call.scope.resolve(written).path)
            if name.startswith("^"):
                _note_above(call, call.scope.resolve(base or ".").path, tail)


def _note_above(call: Call, folder: str, tail: str) -> None:
    """The same name in the folders above, as far as the workspace reaches."""
    root = call.scope.roots.workspace
    while folder != root and within(folder, root):
        folder = posixpath.dirname(folder)
        _decides(call, posixpath.join(folder, tail))


def _decides(call: Call, path: str) -> None:
    if HOLE not in path:
        call.findings.decides(call.scope.roots.shown(path))
