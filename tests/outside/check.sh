#!/usr/bin/env bash
# check.sh BUILD: installs that build into a temporary folder and builds programs against it, by pkg-config and by
# CMake, with every compiler that is here, as C11 and as C++20. Then the library's manners are looked at.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cmake --install "$build" --prefix "$tmp/prefix" >"$tmp/log"
lib=$(find "$tmp/prefix" -name libweft.so | head -n 1)
"$tmp/prefix/bin/weft" --version || { echo "the command is not installed"; exit 1; }
PKG_CONFIG_PATH=$(find "$tmp/prefix" -name pkgconfig -type d | head -n 1)
LD_LIBRARY_PATH=$(dirname "$lib")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
read -ra flags <<<"$(pkg-config --cflags --libs weft)"
cp "$here/program.c" "$tmp/program.cpp"

try() { # NAME COMMAND...: the command builds $tmp/outside
    local what=$1 out
    shift
    "$@" || { echo "$what: does not build"; exit 1; }
    out=$("$tmp/outside")
    echo "$what: $out"
    [ "$out" = "loss falls" ]
}
for cc in gcc clang; do
    command -v $cc >/dev/null || { echo "$cc: not here, skipped"; continue; }
    try "$cc" $cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$here/program.c" -o "$tmp/outside" "${flags[@]}"
done
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || { echo "$cxx: not here, skipped"; continue; }
    try "$cxx" $cxx -std=c++20 -Wall -Wextra -Wpedantic -Werror "$tmp/program.cpp" -o "$tmp/outside" "${flags[@]}"
done
cmake -S "$here" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$tmp" >"$tmp/log"
try CMake cmake --build "$tmp/cmake"

bad=$(nm -D --undefined-only "$lib" | awk '{print $NF}' | sed 's/@.*//' |
    grep -xE 'abort|exit|_exit|_Exit|quick_exit|__assert_fail|v?printf|__v?printf_chk|puts|putchar|perror|stdout' || true)
[ -z "$bad" ] || { echo "libweft.so uses: $bad"; exit 1; }
state=$(size -A "$lib" | awk '$1 ~ /^\.(data|bss|tdata|tbss)$/ { n += $2 } END { print n + 0 }')
[ "$state" -le 4096 ] || { echo "libweft.so has $state bytes of writable globals"; exit 1; }
echo "libweft.so: prints nothing, ends nothing, $state bytes of writable data"
