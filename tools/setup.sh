#!/bin/sh
# Makes .venv and fills it from the locks, for the Makefile:
#   tools/setup.sh problem   prints one line if this machine cannot run the set-up
#   tools/setup.sh learn     installs what a learner needs; safe to repeat after an interruption
#   tools/setup.sh engine    builds the native engine, if this machine has a Rust; never fails, since all works without it
#   tools/setup.sh develop   installs what developers need in addition
#   tools/setup.sh site      installs what the web edition needs in addition
# WHEELHOUSE=FOLDER makes `learn` install from a folder of tools/wheelhouse.py, without a network.
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

# Prints this machine's line in the wheelhouse.txt of a wheelhouse: "linux-x86_64 3.12".
platform_line() { echo "$(uname | sed 's/Darwin/macos/; s/Linux/linux/')-$(uname -m) $("$1" -c "$VERSION")"; }

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
    elif [ -n "${WHEELHOUSE:-}" ] && [ ! -e "$WHEELHOUSE/wheelhouse.txt" ]; then
        echo "WHEELHOUSE=$WHEELHOUSE is not a folder that \`make wheelhouse\` wrote: it has no wheelhouse.txt"
    elif [ -n "${WHEELHOUSE:-}" ] && ! grep -qx "$(platform_line "$(first_that "$SUITS")")" "$WHEELHOUSE/wheelhouse.txt"; then
        echo "The wheelhouse has no wheels for $(platform_line "$(first_that "$SUITS")"). It has: $(paste -sd, "$WHEELHOUSE/wheelhouse.txt"). Name another Python, make lab PYTHON=python3.12, or add wheels with tools/wheelhouse.py"
    fi
}

# Checks that .venv works, was created in this folder (its scripts contain the path), and has the Python in $PYTHON, if set.
venv_is_good() {
    grep -qF "$(pwd -P)/.venv" .venv/bin/activate 2>/dev/null || return 1
    .venv/bin/python -c "import pip; $SUITS" >/dev/null 2>&1 || return 1
    [ -z "${PYTHON:-}" ] || [ "$(.venv/bin/python -c "$VERSION")" = "$("$PYTHON" -c "$VERSION")" ]
}

# Without WHEELHOUSE, packages come from the network. With it, they come only from the folder.
from_wheelhouse() { if [ -n "${WHEELHOUSE:-}" ]; then "$@" --no-index --find-links "$WHEELHOUSE"; else "$@"; fi; }

# uv is fast. If it fails (an old system, company certificates), pip does the same.
install() {
    if from_wheelhouse .venv/bin/uv pip install --python .venv/bin/python "$@"; then return; fi
    echo "    uv failed; trying pip, which is slower"
    from_wheelhouse .venv/bin/python -m pip install --disable-pip-version-check "$@"
}

# Prints the lock of the lessons. A wheelhouse has the hashes of wheels that it built, which no lock can contain: these
# replace the pins of the same packages.
write_learn_lock() {
    if [ -z "${WHEELHOUSE:-}" ]; then cat locks/learn.txt; return; fi
    awk -F= 'FILENAME == ARGV[1] {built[$1]; print; next} /^[^ ]/ {skip = $1 in built} !skip' "$WHEELHOUSE/built.txt" locks/learn.txt
}

learn() {
    python=$(first_that "import ensurepip, venv; $SUITS")
    if venv_is_good; then
        echo "1/4 keeping .venv, Python $(.venv/bin/python -c "$VERSION")"
    else
        echo "1/4 making .venv with Python $("$python" -c "$VERSION")"
        # Through a link, --clear would empty the environment of another folder.
        [ ! -L .venv ] || rm .venv
        "$python" -m venv --clear .venv
    fi
    rm -f .venv/.learn .venv/.develop .venv/.site

    echo "2/4 installing the installer, 30 MB"
    awk '/^[^ #]/ {wanted = /^(setuptools|uv)==/} wanted' locks/learn.txt >.venv/setup.txt
    from_wheelhouse .venv/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r .venv/setup.txt

    if [ -n "${WHEELHOUSE:-}" ]; then
        echo "3/4 installing what the lessons need, from $WHEELHOUSE"
    else
        echo "3/4 installing what the lessons need: about 650 MB to download the first time, of which PySpark is 456 MB"
    fi
    # Everything comes from the lock. It is complete, so --no-deps is safe; resolving would download PySpark twice.
    # Without isolation, the pinned setuptools builds PySpark.
    write_learn_lock >.venv/learn.txt
    install --require-hashes --no-deps --no-build-isolation -r .venv/learn.txt

    echo "4/4 installing kafkagroups itself"
    install --no-deps --no-build-isolation -e .
    if ! .venv/bin/python -c 'from kafkagroups.spark.session import find_java; find_java()' >/dev/null 2>&1; then
        echo "    no Java 17 or newer here: installing one into .venv, for Spark only, 40 MB"
        install --require-hashes --no-deps -r locks/java.txt ||
            echo "    that failed: Spark's cells will not run, and 'kafkagroups doctor' says how to repair it"
    fi
    pwd -P >.venv/.learn
    echo "    done; '.venv/bin/uv cache clean pyspark' frees 1.4 GB of its download, if you need the disk"
}

build_engine() {
    install --require-hashes --no-deps -r locks/maturin.txt &&
        .venv/bin/python tools/engine.py wheel .venv/engine &&
        install --no-deps --force-reinstall .venv/engine/kafkagroups_engine-*.whl
}

# Only a finished engine gets the stamp, so the next `make` tries again.
engine() {
    rm -f .venv/.engine
    if [ -n "${WHEELHOUSE:-}" ]; then
        if [ -e "$WHEELHOUSE/engine.txt" ] && install --require-hashes --no-deps -r "$WHEELHOUSE/engine.txt" >.venv/engine.log 2>&1; then
            touch .venv/.engine
        else
            echo "The wheelhouse has no native engine for this machine, so large logs load slowly; everything works without it."
        fi
    elif ! cargo --version >/dev/null 2>&1; then
        .venv/bin/python -c 'import kafkagroups_engine' 2>/dev/null ||
            echo "No Rust here to build the native engine, so large logs load slowly; everything works without it. To get it: $(rust_packages), then repeat this command."
    else
        echo "building the native engine: about a minute the first time"
        if build_engine >.venv/engine.log 2>&1; then touch .venv/.engine; return; fi
        # An engine from before would answer for sources that it was not built from.
        .venv/bin/uv pip uninstall --quiet --python .venv/bin/python kafkagroups-engine >/dev/null 2>&1 || true
        echo "The native engine could not be built, so large logs load slowly; everything works without it. .venv/engine.log says why: $(why_not)"
    fi
}

# Prints the command that installs a Rust. Debian 12 has one that is new enough under other names.
rust_packages() {
    if [ "$(uname)" = Darwin ]; then echo "brew install rust"
    elif grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then echo "apt install cargo-web"
    else echo "apt install cargo"; fi
}

# Prints the first error of a build, or its last line.
why_not() {
    first=$(sed -n 's/^error[^:]*: //p' .venv/engine.log | head -n 1)
    echo "${first:-$(tail -n 1 .venv/engine.log)}"
}

develop() {
    echo "1/1 installing the development tools, 30 MB"
    install --require-hashes --no-deps -r locks/develop.txt -r locks/live.txt
    touch .venv/.develop
}

site() {
    echo "1/1 installing Sphinx, the theme of the web edition and reveal.js for the slides, 17 MB"
    install --require-hashes --no-deps -r locks/site.txt
    touch .venv/.site
}

"$1"
