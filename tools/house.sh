#!/usr/bin/env bash
# The rules of the house that a compiler does not know. One line a fault; exits 1 if there is any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
faults=0
fault() {
    printf '%s\n' "$*"
    faults=$((faults + 1))
}
each_line() { # what: reads "file:line:text" lines
    local line
    while IFS= read -r line; do fault "$line: $1"; done
}

# 1. A folder includes only what is before it in this order (and the public headers).
order="base kernel codegen tune graph ops passes device record grad plan exec dist nn data io deploy explain cli"
rank() {
    local i=0 f
    for f in $order; do
        [ "$f" = "$1" ] && break
        i=$((i + 1))
    done
    printf '%s' $i
}
while IFS=: read -r file line text; do
    from=${file#src/} from=${from%%/*}
    to=${text#*\"} to=${to%%/*}
    case " $order " in *" $to "*) ;; *) continue ;; esac
    [ "$(rank "$to")" -le "$(rank "$from")" ] || fault "$file:$line: $from must not include $to, which is above it"
done < <(grep -rnE --include='*.[ch]' '^#include "[a-z]+/' src || true)

# 2. Calls that have a wrapper, or no place in a library at all.
lib() { grep -rnE --include='*.[ch]' "$1" src | grep -vE "^[^:]*:[0-9]+: *(/?\*|//)" | grep -vE "$2" || true; }
each_line "banned, see src/base/README.md" < <(lib '(^|[^A-Za-z0-9_.>])(gets|strcpy|strcat|strncpy|strncat|sprintf|strtok|ato[ifl]|strto[ldf]|strto[ul]l|sscanf|setjmp|longjmp|alloca|system|popen|tmpnam|mktemp|rand|localtime|strerror|signal|abort|exit|_exit|printf|puts|putchar|perror|assert)\(' '^$')
each_line "memory goes through src/base/mem.h" < <(lib '(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup)\(' '^src/base/mem\.c')
each_line "the environment is read in src/base/env.c" < <(lib '(^|[^A-Za-z0-9_])(secure_)?getenv\(' '^src/base/env\.c')
each_line "files go through src/base/file.h" < <(lib '(^|[^A-Za-z0-9_.>])(fopen|open|openat|rename|renameat|unlink|unlinkat)\(' '^src/base/(file|cache)\.c')

# Every variable that is read is known to `weft info` and described.
variables() { grep -ohE "$1" "${@:2}" | grep -oE 'WEFT_[A-Z_]+' | sort -u; }
read -r -d '' known < <(variables '^    \{ "WEFT_[A-Z_]+"' src/base/env.c; printf '\0') || true
each_line "this variable is not in the table of src/base/env.c" < <(comm -23 <(find src -name '*.c' ! -path 'src/base/env.c' ! -path 'src/cli/*' -print0 | xargs -0 grep -ohE '"WEFT_[A-Z_]+"' | grep -oE 'WEFT_[A-Z_]+' | sort -u) <(printf '%s\n' "$known"))
each_line "this variable is not in docs/environment.md" < <(comm -23 <(printf '%s\n' "$known") <(variables '^[|] .WEFT_[A-Z_]+' docs/environment.md))

# 3. A file name stands for one file.
each_line "this file name is in the tree more than once" < <(find src include tests/unit tools examples -name '*.[ch]' -printf '%f\n' | sort | uniq -d)

# 4. Nothing is left for later.
each_line "finish it" < <(grep -rnwE --include='*.[ch]' 'TODO|FIXME|XXX' src include tests examples tools || true)

[ $faults -eq 0 ] || exit 1
