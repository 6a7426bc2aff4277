#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes sure that the Debian packages named are installed: by apt when we may, else says what to type.
missing=
for package in "$@"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)
  case "$package:$status" in
    *:*"install ok installed") continue ;;
  esac
  # A compiler or interpreter from elsewhere serves as well as Debian's.
  case "$package" in
    g++) command -v g++ >/dev/null 2>&1 && continue ;;
    python3-venv) "${PYTHON:-python3}" -c 'import ensurepip' 2>/dev/null && continue ;;
    python3-dev)
      "${PYTHON:-python3}" -c 'import os, sysconfig as s; assert os.path.exists(s.get_path("include") + "/Python.h")' \
        2>/dev/null && continue ;;
    openmpi-bin) command -v oshrun >/dev/null 2>&1 && continue ;;
    libopenmpi-dev) command -v oshcc >/dev/null 2>&1 && continue ;;
  esac
  missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root=sudo
else
  echo "Please install:  sudo apt-get install$missing" >&2
  exit 1
fi
command -v apt-get >/dev/null 2>&1 || { echo "No apt-get here; please install the equivalents of:$missing" >&2; exit 1; }
echo "installing$missing"
$as_root apt-get update -qq || true
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
