#!/bin/sh
# image.sh FOLDER IMAGE [BASE]: an image of FOLDER/stowplan.pex, by docker, or else by buildah.
set -eu
folder=$1
image=$2
base=${3:-}
if docker info >/dev/null 2>&1; then
    build="docker build"
elif command -v buildah >/dev/null; then
    build="buildah bud"
else
    echo "Error: an image is built by docker, whose daemon must run, or by buildah; neither is here." >&2
    exit 1
fi
set -- --file "$(dirname "$0")/../Containerfile" --tag "$image"
if [ -n "$base" ]; then
    set -- "$@" --build-arg "BASE=$base"
fi
# shellcheck disable=SC2086 # two words
exec $build "$@" "$folder"
