#!/bin/sh
# Makes .venv and fills it from the locks, for the Makefile:
#   tools/setup.sh problem   prints one line if this machine cannot run the set-up
#   tools/setup.sh learn     installs what a learner needs; safe to repeat after an interruption
#   tools/setup.sh develop   installs what developers need in addition
#   tools/setup.sh site      installs what the web edition needs in addition
set -eu
cd "$(dirname "$0")/.."

SUITS='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
VERSION='import sys; print("%d.%d" % sys.version_info[:2])'

candidates() {
    if [ -n "${PYTHON:-}" ]; then echo "$PYTHON"; else printf '%s\n' python3.13 python3.12 python3.11 python3; fi
}

# Prints the first candidate that can run "$1". Each one is run, because a version manager's shim may exist and not work.
first_that() {
    candidates | while read -r python; do
        if "$python" -c "$1" >/dev/null 2>&1 </dev/null; then echo "$python"; break; fi
    done
}

free_gb() { df -Pk . | awk 'NR == 2 {print int($4 / 1024 / 1024)}'; }

problem() {
    if [ -z "$(first_that "$SUITS")" ]; then
        other=${PYTHON:-python3}
        if found=$("$other" -c "$VERSION" 2>/dev/null); then found="$other is Python $found"; else found="$other is not a Python"; fi
        echo "kafkagroups needs Python 3.11, 3.12 or 3.13, and $found here. Install one, or name it: make lab PYTHON=/path/to/python3.12"
    elif [ -z "$(first_that "import ensurepip, venv; $SUITS")" ]; then
        echo "$(first_that "$SUITS") here cannot make environments, its venv module is missing: apt install python3-venv"
    elif [ ! -e .venv/.learn ] && [ "$(free_gb)" -lt 3 ]; then
        echo "kafkagroups needs 3 GB of free disk and $(free_gb) GB are free here."
    fi
}

# Checks that .venv works, was created in this folder (its scripts contain the path), and has the Python in $PYTHON, if set.
venv_is_good() {
    grep -qF "$(pwd -P)/.venv" .venv/bin/activate 2>/dev/null || return 1
    .venv/bin/python -c "import pip; $SUITS" >/dev/null 2>&1 || return 1
    [ -z "${PYTHON:-}" ] || [ "$(.venv/bin/python -c "$VERSION")" = "$("$PYTHON" -c "$VERSION")" ]
}

# uv is fast. If it fails (an old system, company certificates), pip does the same.
install() {
    if .venv/bin/uv pip install --python .venv/bin/python "$@"; then return; fi
    echo "    uv failed; trying pip, which is slower"
    .venv/bin/python -m pip install --disable-pip-version-check "$@"
}

learn() {
    python=$(first_that "import ensurepip, venv; $SUITS")
    if venv_is_good; then
        echo "1/4 keeping .venv, Python $(.venv/bin/python -c "$VERSION")"
    else
        echo "1/4 making .venv with Python $("$python" -c "$VERSION")"
        "$python" -m venv --clear .venv
    fi
    rm -f .venv/.learn .venv/.develop .venv/.site

    echo "2/4 installing the installer, 30 MB"
    awk '/^[^ #]/ {wanted = /^(setuptools|uv)==/} wanted' locks/learn.txt >.venv/setup.txt
    .venv/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r .venv/setup.txt

    echo "3/4 installing what the lessons need: about 650 MB to download the first time, of which PySpark is 456 MB"
    # Everything comes from the lock. It is complete, so --no-deps is safe; resolving would download PySpark twice.
    # Without isolation, the pinned setuptools builds PySpark.
    install --require-hashes --no-deps --no-build-isolation -r locks/learn.txt

    echo "4/4 installing kafkagroups itself"
    install --no-deps --no-build-isolation -e .
    if ! .venv/bin/python -c 'from kafkagroups.spark.java import find_java; find_java()' >/dev/null 2>&1; then
        echo "    no Java 17 or newer here: installing one into .venv, for Spark only, 40 MB"
        install --require-hashes --no-deps -r locks/java.txt ||
            echo "    that failed: Spark's cells will not run, and 'kafkagroups doctor' says how to repair it"
    fi
    pwd -P >.venv/.learn
    echo "    done; '.venv/bin/uv cache clean pyspark' frees 1.4 GB of its download, if you need the disk"
}

develop() {
    echo "1/1 installing the development tools, 30 MB"
    install --require-hashes --no-deps -r locks/develop.txt -r locks/live.txt
    touch .venv/.develop
}

site() {
    echo "1/1 installing Sphinx and the theme of the web edition, 15 MB"
    install --require-hashes --no-deps -r locks/site.txt
    touch .venv/.site
}

"$1"
