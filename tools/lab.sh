#!/bin/sh
# Checks the set-up and opens JupyterLab, which prints its address with its token. Arguments are passed to JupyterLab.
# It listens on the loopback address. LAB_ADDRESS names another one: a container publishes its port itself.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/python -m kafkagroups doctor || echo "A check failed. JupyterLab starts anyway; the lines above say how to repair each problem."
echo

# Without a screen, JupyterLab would look for a text browser.
if [ "$(uname)" != Darwin ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then set -- --no-browser "$@"; fi
if [ "$(id -u)" = 0 ]; then set -- --allow-root "$@"; fi
# JupyterLab drops the styles of outputs in notebooks that it does not trust, so these look broken until they are run.
.venv/bin/python -m nbformat.sign notebooks/[0-9][0-9]_*.ipynb >/dev/null
# The address leads to the first notebook. The root is the project, so that links from lessons to docs/ work.
JUPYTER_CONFIG_PATH="$PWD/tools/jupyter${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
export JUPYTER_CONFIG_PATH
exec .venv/bin/python -m jupyterlab --ip="${LAB_ADDRESS:-127.0.0.1}" --log-level=WARN --ServerApp.root_dir=. \
    --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
    --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb "$@"
