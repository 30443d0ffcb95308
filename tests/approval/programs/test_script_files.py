"""Detection of the files that decide what a command runs, from its text."""

from __future__ import annotations

import pytest

from kogniterm.approval import classify

WORKSPACE = "/home/dev/work"


def deciding(command: str, cwd: str = WORKSPACE) -> tuple[str, ...]:
    return classify(command, cwd=cwd, workspace=WORKSPACE).deciding


DECIDING = r"""
./x.sh a => x.sh
bash -x run.sh => run.sh
sudo ./z => z
python3 a.py && ./b => a.py b
source env.sh => env.sh
. ./env.sh => env.sh
bash -c './y' => y
cd sub && ./tool => sub/tool
python3 -X dev -W error b.py d.csv => b.py
node -r ./pre.js s.js => pre.js s.js
ruby -I lib t.rb => t.rb
perl -I lib p.pl => p.pl
php -f x.php => x.php
java -jar build/app.jar => build/app.jar
Rscript a.R => a.R
bash < s.sh => s.sh
sh -s x < s.sh => s.sh
cat s.sh | sh => s.sh
cat a b | bash -s => a b
python3 - < a.py => a.py
python3 < a.py => a.py
sh -c "$(cat f)" => f
eval "$(cat q)" => q
source <(cat e) => e
xargs rm < list => list
ssh host bash < s.sh => s.sh
sqlite3 d.db < q.sql => q.sql
psql -f q.sql => q.sql
while read x; do $x; done < jobs => jobs
bash --rcfile r s.sh => r s.sh
make => GNUmakefile makefile Makefile *.mk
make -C sub => sub/Makefile
make -f x.mk all => x.mk
make -C sub -f x.mk => sub/x.mk
make -f - < a => a
timeout 5 make => Makefile
env A=1 make => Makefile
make --file=x.mk => x.mk
make -Csub => sub/GNUmakefile
just build => justfile Justfile .justfile
just -f j.just => j.just
task build => Taskfile.yml
rake test => Rakefile
tox -e py => tox.ini
npm run x => package.json .npmrc
npm --prefix web test => web/package.json
yarn build => package.json
pnpm -C web test => web/package.json
bun run t => package.json
npx jest => package.json
pytest tests/test_a.py::x => conftest.py tests/conftest.py tests/test_a.py
pytest -c alt.ini => alt.ini pyproject.toml
nox => noxfile.py
python -m pytest -x tests => conftest.py tests/conftest.py
python3 -m pkg.tool --x => pkg/tool.py pkg/tool/__main__.py
pip install -r req.txt . => req.txt setup.py pyproject.toml
uv run a.py => a.py pyproject.toml
poetry run x => pyproject.toml
docker compose -f c.yml up => c.yml compose.yaml
docker build ./app => Dockerfile app/Dockerfile
docker-compose up => docker-compose.yml
cmake -S src -B out => src/CMakeLists.txt
cmake --build out => out/Makefile out/build.ninja
ninja -C out => out/build.ninja
gradle test => build.gradle settings.gradle
mvn -f a/pom.xml test => a/pom.xml
cargo test => Cargo.toml build.rs
cargo run --manifest-path c/Cargo.toml => c/Cargo.toml
go generate ./... => *.go go.mod
go run main.go => main.go
ansible-playbook -i hosts site.yml => site.yml hosts ansible.cfg
pre-commit run => .pre-commit-config.yaml
kubectl apply -f k.yaml => k.yaml
git commit -m x => .git/hooks/* .git/config .pre-commit-config.yaml
git -C sub push => sub/.git/config sub/.git/hooks/*
terraform apply => *.tf
sed -f s.sed x => s.sed
awk -f p.awk x => p.awk
gdb -x cmds prog => cmds
crontab tab => tab
curl -K conf => conf
"""


@pytest.mark.parametrize("row", DECIDING.strip().splitlines())
def test_files_that_decide_are_named(row: str) -> None:
    command, _, files = row.partition(" => ")
    assert set(files.split()) <= set(deciding(command))


@pytest.mark.parametrize(
    "command",
    ["ls", "/usr/bin/ls -l", "cat a.txt", "grep x f", "$X", "python3 -c 'print(1)'", "bash -c ls",
     "touch a", "cp a b", "python3 --version"],
)  # fmt: skip
def test_what_runs_no_file_names_none(command: str) -> None:
    assert deciding(command) == ()


def test_data_given_to_a_script_does_not_decide() -> None:
    assert deciding("python3 b.py < data.csv") == ("b.py",)


def test_folders_above_are_looked_into_as_far_as_the_workspace() -> None:
    found = deciding("npm test", cwd=f"{WORKSPACE}/web/app")
    named = [name for name in found if name.endswith("package.json")]
    assert named == ["web/app/package.json", "web/package.json", "package.json"]


def test_a_name_known_only_at_run_time_is_not_named() -> None:
    assert deciding("bash $(date).sh") == ()
