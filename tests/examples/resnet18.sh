#!/bin/sh
# resnet18.sh BUILD - a few steps of the example on pictures that are made here, eager and lazy with other numbers of
# threads: the saved weights must be the same bytes.
set -eu
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=24
{
    printf '\000\000\010\003\000\000\000\030\000\000\000\034\000\000\000\034'
    head -c $((n * 784)) "$build/examples/resnet18" # bytes as good as any
} >"$dir/images"
{
    printf '\000\000\010\001\000\000\000\030'
    i=0
    while [ $i -lt $n ]; do
        printf "\\00$((i % 8))"
        i=$((i + 1))
    done
} >"$dir/labels"
data="idx:$dir/images:$dir/labels"
for mode in "eager 1" "lazy 2"; do
    set -- $mode
    "$build/examples/resnet18" --quick --quiet --batch 8 --data "$data" --test "$data" --mode "$1" --threads "$2" --out "$dir/$1"
done
cmp "$dir/eager/resnet18.safetensors" "$dir/lazy/resnet18.safetensors"
