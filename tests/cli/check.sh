#!/usr/bin/env bash
# check.sh BUILD: every subcommand of `weft`, right and wrong usage. One line a fault; exits 1 if there is any.
set -uo pipefail
build=$1
weft=$build/src/weft
victim=$build/tests/victim
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset WEFT_SKIP WEFT_REUSE WEFT_CC WEFT_LOG WEFT_LOG_FILE WEFT_DUMP WEFT_DUMP_DIR WEFT_MODE WEFT_CHECK WEFT_THREADS
faults=0

# STATUS COMMAND...: runs it; output in $tmp/out, errors in $tmp/err.
run() {
    local want=$1 got
    shift
    last="$*"
    "$@" >"$tmp/out" 2>"$tmp/err"
    got=$?
    [ "$got" = "$want" ] || fault "exit status $got, $want was expected: $(head -n 3 "$tmp/err")"
}
fault() {
    echo "$last: $1"
    faults=$((faults + 1))
}
out() { # TEXT: is in the output
    grep -qF -- "$1" "$tmp/out" || fault "no \"$1\" in the output: $(head -n 5 "$tmp/out")"
}
err() { # TEXT: is the one line of errors
    grep -qF -- "$1" "$tmp/err" || fault "no \"$1\" in: $(cat "$tmp/err")"
    [ "$(wc -l <"$tmp/err")" = 1 ] || fault "more than one line of errors"
}
json() {
    command -v python3 >/dev/null || return 0
    python3 -m json.tool "$tmp/out" >"$tmp/pretty" || fault "no JSON"
}

# ---- the command itself
run 2 "$weft"; err "weft: a command was expected; weft --help lists them"
run 2 "$weft" nothing; err 'weft: there is no command "nothing"'
run 0 "$weft" --help; out "usage: weft COMMAND"; out "  bisect "
run 0 "$weft" --version; out "weft 0."
for command in info show verify bisect; do
    run 0 "$weft" $command --help; out "usage: weft $command"; out "examples:"; out "exit status:"
done

# ---- info
run 0 "$weft" info; out "kernels for "; out "WEFT_SKIP "
run 0 env WEFT_ISA=portable WEFT_SKIP=fuse "$weft" info --json; json
out '"isa":"portable"'; out '"WEFT_SKIP":"fuse"'; out '"WEFT_DUMP":null'; out '"passes":["relax","simplify","prune",'
run 0 env WEFT_THREADS=1 "$weft" info --measure; out "Gflop/s of f32"; out "memory "
run 2 "$weft" info --jason; err 'weft info: "--jason" was not expected; weft info --help'

# ---- show: graphs
cat >"$tmp/graph.txt" <<'TEXT'
v0 = input 0 : f32[8,16]
v1 = var 3 : f32[16,4]   # a comment
v2 = matmul v0 v1 : f32[8,4]
v3 = exp v2 : f32[8,4]
v4 = neg v3 : f32[8,4]
v5 = exp v2 : f32[8,4]
assign 3 v1
result 7 v4
TEXT
run 0 "$weft" show "$tmp/graph.txt"
out "# $tmp/graph.txt: 8 nodes, 4 of them operators; "
out "v2 = matmul v0 v1 : f32[8,4]  # 1024 flop, 896 bytes"
run 0 "$weft" show "$tmp/graph.txt" --passes
out "# after simplify: 7 nodes"; out "fused(exp i0; neg t0) v2"; out "# apart, kind: matmul -> exp: "
run 0 "$weft" show --json --passes "$tmp/graph.txt"; json
out '{"op":"matmul","operands":[0,1],"results":[{"value":2,"type":"f32[8,4]"}],"flop":1024,"bytes":896}'
out '"apart":[{"why":"kind","make":"matmul","use":"exp"}]'
# what was shown is a graph again
run 0 "$weft" show "$tmp/graph.txt"; cp "$tmp/out" "$tmp/again.txt"
run 0 "$weft" show "$tmp/again.txt"; tail -n +2 "$tmp/out" | diff -q - <(tail -n +2 "$tmp/again.txt") >/dev/null || fault "shown twice it differs"
echo "v0 = nothing 3 : f32[2]" >"$tmp/bad.txt"
run 1 "$weft" show "$tmp/bad.txt"; err "bad.txt: line 1: no operator of this name: \"nothing\""
printf 'v0 = input 0 : f32[8]\nv1 = input 1 : f32[9]\nv2 = add v0 v1 : f32[8]\n' >"$tmp/bad.txt"
run 1 "$weft" show "$tmp/bad.txt"; err "weft show: $tmp/bad.txt: "
: >"$tmp/empty"
run 1 "$weft" show "$tmp/empty"; err "no graph and no tensors"
run 3 "$weft" show "$tmp/missing"; err "missing: cannot open: No such file"
run 3 "$weft" show "$tmp"; err "not a regular file"
run 2 "$weft" show; err "weft show: a file was expected; weft show --help"
run 2 "$weft" show "$tmp/graph.txt" "$tmp/bad.txt"; err "one file at a time"
run 2 "$weft" show --pass "$tmp/graph.txt"; err "there is no option --pass"

# ---- show: tensors
tensors=$here/../data/pypi.safetensors
run 0 "$weft" show "$tensors"; out " tensors, "; out "without a checksum"
run 0 "$weft" show --json "$tensors"; json; out '"kind":"safetensors"'
run 2 "$weft" show --passes "$tensors"; err "--passes is for graphs"
head -c 100 "$tensors" >"$tmp/cut.safetensors"
run 1 "$weft" show "$tmp/cut.safetensors"; err "weft show: $tmp/cut.safetensors: "
head -c 300 /dev/zero >"$tmp/zeros"
run 1 "$weft" show "$tmp/zeros"; err "neither a graph as text nor a safetensors file"

# ---- verify
certificate() { # LINE...: one with a right hash
    printf '%s\n' "weft plan certificate 1" "plan 0" "$@" >"$tmp/step.cert"
    echo "end $(sha256sum <"$tmp/step.cert" | cut -d' ' -f1)" >>"$tmp/step.cert"
}
certificate "arena 64" "storage 0 arena 0 64" "storage 1 var 0 64" "leaf v0 1" "command 0 k writes v1@0[0,64) reads v0@1[0,64)" "out v1@0[0,64)"
run 0 "$weft" verify "$tmp/step.cert"; out "proved: 1 commands find"; out "an arena of 64 bytes"
echo "plan: another" >"$tmp/step.plan"
run 1 "$weft" verify "$tmp/step.cert" "$tmp/step.plan"; err "line 2: it is the certificate of another plan"
certificate "arena 64" "storage 0 arena 0 64" "out v1@0[0,64)"
run 1 "$weft" verify "$tmp/step.cert"; err "step.cert: line 5: what is read is not there"
run 1 "$weft" verify "$tmp/zeros"; err "no text"
run 3 "$weft" verify "$tmp/no-such-file"; err "weft verify: "
run 2 "$weft" verify; err "a certificate, and perhaps a plan, was expected"

# ---- bisect
export XDG_CACHE_HOME=$tmp/cache
bisect() { # STATUS WHAT...: of the victim
    local want=$1
    shift
    run "$want" "$weft" bisect "${option[@]}" -- "$victim" "$@" ${option:+--print}
}
for option in "" --output; do
    option=(${option:+$option})
    bisect 0 group; out "guilty: pass fuse"; out "group: fuse:"; out "fused(exp i0; neg t0) at "; out "victim.c:"
    cure=$(sed -n 's/^cure: //p' "$tmp/out")
    run 0 env "$cure" "$victim" group
    bisect 0 simplify; out "guilty: pass simplify"; out "cure: WEFT_SKIP=simplify"
    bisect 0 reuse; out "guilty: memory that values share"; out "cure: WEFT_REUSE=0"
    bisect 1 never; [ -s "$tmp/out" ] && fault "it blames somebody"
    if "$weft" info --json | grep -q '"compiler":"'; then
        bisect 0 compiled; out "guilty: compiled kernels"; out "cure: WEFT_CC="
    fi
done
option=()
bisect 1 always; grep -qF "it goes wrong without any plan as well" "$tmp/err" || fault "no reason"
run 1 "$weft" bisect -- env WEFT_MODE=eager false
# shellcheck disable=SC2016
run 1 "$weft" bisect --output -- sh -c 'echo $$'; grep -qF "two equal runs differ" "$tmp/err" || fault "no reason"
run 2 "$weft" bisect; err "weft bisect: a program was expected behind --"
run 2 "$weft" bisect --; err "a program was expected behind --"
run 2 "$weft" bisect "$victim"; err "was not expected before --"
run 3 "$weft" bisect -- "$tmp/no-such-program" x; err "cannot be started: No such file"

# ---- tune
tune=("$weft" tune --threads 2 --budget 2)
run 0 "${tune[@]}" matmul 96x200x100 f32; out "matmul f32[96,200] f32[200,100]"; out " ways: by rule "
run 0 "${tune[@]}" --json softmax 'f32[300,64]' axis=-1; json; out '"problem":"softmax f32[300,64] axis=-1"'
run 0 "${tune[@]}" --quiet neg 'f32[8]'; out "there is one way only to do it"
WEFT_LOG=tune WEFT_LOG_FILE=$tmp/tune.log WEFT_THREADS=2 "$victim" never >/dev/null 2>&1
run 0 "${tune[@]}" --log "$tmp/tune.log"; out "matmul f32["
run 3 "${tune[@]}" --log "$tmp/zeros"; err "has no lines of WEFT_LOG=tune"
run 3 "${tune[@]}" --log "$tmp/none"; err "cannot open"
run 2 "${tune[@]}"; err "one operator, --log FILE or --suite was expected"
run 2 "${tune[@]}" nothing 'f32[1]'; err 'there is no such operator: "nothing"'
run 2 "${tune[@]}" matmul 'f32[2,3]' 'f32[4,5]'; err "sizes of axis k differ"
run 2 "${tune[@]}" --budget never matmul 8x8x8 f32; err "--budget takes seconds"
run 2 "${tune[@]}" --threads; err "--threads needs a value"
run 3 env XDG_CACHE_HOME=/proc/none "${tune[@]}" matmul 96x200x100 f32; err "the records cannot be kept: "

[ $faults = 0 ] && echo "weft: every subcommand does what it says"
[ $faults = 0 ]
