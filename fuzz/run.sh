#!/bin/sh
# Runs every fuzz target for some seconds each (60 unless said otherwise): fuzz/run.sh [SECONDS]
# libFuzzer needs no nightly compiler when no sanitizer is asked for: coverage is a flag of LLVM.
set -eu
cd "$(dirname "$0")"
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1"
cargo build --quiet --target "$target"
for source in fuzz_targets/*.rs; do
    name=$(basename "$source" .rs)
    mkdir -p "corpus/$name" "artifacts/$name"
    echo "fuzz: $name"
    "target/$target/debug/$name" -max_total_time="${1:-60}" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="artifacts/$name/" "corpus/$name"
done
