#!/bin/sh
# image.sh check: whether docker, or else buildah, can build an image here.
# image.sh PACKAGE IMAGE [BASE]: an image of a package such as dist/stowplan.pex.
set -eu
if docker info >/dev/null 2>&1; then
    build="docker build"
elif command -v buildah >/dev/null; then
    build="buildah bud"
else
    echo "Error: an image is built by docker, whose daemon must run, or by buildah; neither is here." >&2
    exit 1
fi
if [ "$1" = check ]; then
    exit
fi
package=$1
image=$2
base=${3:-}
set -- --file "$(dirname "$0")/../Containerfile" --tag "$image"
set -- "$@" --build-arg "PACKAGE=$(basename "$package")"
if [ -n "$base" ]; then
    set -- "$@" --build-arg "BASE=$base"
fi
# shellcheck disable=SC2086 # two words
exec $build "$@" "$(dirname "$package")"
