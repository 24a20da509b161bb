#!/bin/sh
# image.sh check: whether docker, or else buildah, can build an image here.
# image.sh PACKAGE IMAGE [BASE]: an image of a package such as dist/stowplan.pex.
# Variables: VARIANT (a stage of the Containerfile: stowplan or static-pod), MACHINE (arm64, of a
# package for it), SOURCE_DATE_EPOCH (the time of the commit unless it is set).
set -eu
if docker info >/dev/null 2>&1; then
    engine=docker
elif command -v buildah >/dev/null; then
    engine=buildah
else
    echo "Error: an image is built by docker, whose daemon must run, or by buildah; neither is here." >&2
    exit 1
fi
variant=${VARIANT:-stowplan}
case $variant in
stowplan | static-pod) ;;
*)
    echo "Error: there is no variant '$variant' of the image. Fix: VARIANT=static-pod, or none." >&2
    exit 1
    ;;
esac
if [ "$1" = check ]; then
    exit
fi
package=$1
image=$2
base=${3:-}
top=$(dirname "$0")/..
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
# GNU's and busybox's date, or BSD's.
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null ||
    date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
revision=$(git -C "$top" rev-parse HEAD 2>/dev/null || true)
if [ -n "$revision" ] && [ -n "$(git -C "$top" status --porcelain --untracked-files=no)" ]; then
    revision=$revision-dirty
fi
project() {
    sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$top/pyproject.toml"
}
set -- --file "$top/Containerfile" --target "$variant" --tag "$image" \
    --build-arg "PACKAGE=$(basename "$package")" \
    --build-arg "VERSION=$(project version)" \
    --build-arg "SOURCE=$(project Repository)" \
    --build-arg "REVISION=$revision" \
    --build-arg "CREATED=$created"
if [ -n "$base" ]; then
    set -- "$@" --build-arg "BASE=$base"
fi
if [ -n "${MACHINE:-}" ]; then
    set -- "$@" --platform "linux/$MACHINE"
fi
if [ "$engine" = docker ]; then
    set -- docker build "$@"
else
    set -- buildah bud --timestamp "$SOURCE_DATE_EPOCH" "$@"
fi
"$@" "$(dirname "$package")" || {
    code=$?
    echo "Error: no image was built. If the base cannot be pulled: make image BASE=IMAGE names another." >&2
    exit "$code"
}
