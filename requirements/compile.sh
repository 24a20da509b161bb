#!/bin/sh
# Re-pin the requirements files. Needs uv; writes hashes and no index addresses.
set -eu
cd "$(dirname "$0")"
for set in runtime dev package release bench-extender fuzz; do
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@" \
        "$set.in" --output-file "$set.txt"
done
