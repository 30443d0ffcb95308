#!/bin/sh
# Installs KogniTerm in the container of a task, in a folder of its own, so that the Python and the
# packages of the task stay as they are. Usage: install.sh FOLDER PACKAGE
#
# A Python of the container is used if it is new enough and can make environments; otherwise uv
# brings one. Exits with 3 if that needs a download and there is neither curl nor wget.
set -eu

folder=$1
package=$2

newest_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
            >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    return 1
}

get_uv() {
    if command -v uv; then
        return
    fi
    address=https://astral.sh/uv/install.sh
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --max-time 60 --retry 2 "$address" \
            >"$folder/uv.sh"
    elif command -v wget >/dev/null 2>&1; then
        wget -q -T 60 -O "$folder/uv.sh" "$address"
    else
        echo "uv cannot be downloaded without curl or wget" >&2
        exit 3
    fi
    UV_INSTALL_DIR="$folder/uv" UV_NO_MODIFY_PATH=1 sh "$folder/uv.sh" >&2
    echo "$folder/uv/uv"
}

mkdir -p "$folder"
if python=$(newest_python); then
    "$python" -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        "$package"
else
    uv=$(get_uv)
    # Where other users than root can read it, too.
    export UV_PYTHON_INSTALL_DIR="$folder/python"
    "$uv" venv --quiet --python 3.12 "$folder/venv"
    "$uv" pip install --quiet --python "$folder/venv/bin/python" "$package"
fi
chmod -R a+rX "$folder"
"$folder/venv/bin/kogniterm" --version
