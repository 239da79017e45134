#!/bin/sh
# Checks the set-up and opens JupyterLab; arguments go to JupyterLab. Its address, with its token, is printed.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/python -m kafkagroups doctor || echo "Something is not ok; JupyterLab starts all the same, and each line above says how to mend it."
echo

# without a screen JupyterLab would look for a text browser
if [ "$(uname)" != Darwin ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then set -- --no-browser "$@"; fi
if [ "$(id -u)" = 0 ]; then set -- --allow-root "$@"; fi
# the address that is printed, or opened, leads to the first notebook
exec .venv/bin/python -m jupyterlab --ip=127.0.0.1 --log-level=WARN --ServerApp.root_dir=notebooks \
    --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
    --LabApp.default_url=/lab/tree/00_start_here.ipynb "$@"
