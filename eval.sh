#!/usr/bin/env bash
# Before and after: merge a checkpoint into a Hugging Face folder, evaluate the base model and the merged one with EvalScope
# under the same settings, print one table.
#
#   bash eval.sh runs/qwen2.5-coder-0.5b-instruct_gae                 the last checkpoint of a run
#   bash eval.sh runs/.../checkpoints/global_step_120                 a certain one
#   LIMIT=20 DATASETS=humaneval bash eval.sh CHECKPOINT               a quick look
#   DRY_RUN=1 bash eval.sh CHECKPOINT                                 print the commands, run nothing
#
# EvalScope runs the programs that the models write on this machine, without a sandbox: use a machine that holds no secrets.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

if (($# != 1)); then
    echo "usage: bash eval.sh CHECKPOINT   (a run folder, a global_step_N folder or its actor folder)" >&2
    exit 2
fi
CHECKPOINT=$1
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-Coder-0.5B-Instruct}  # the model that the run started from
DATASETS=${DATASETS:-humaneval live_code_bench gsm8k}       # gsm8k is the control: it should not move
LIMIT=${LIMIT:-100}                                         # problems of each benchmark
MAX_TOKENS=${MAX_TOKENS:-2048}
EVAL_BATCH_SIZE=${EVAL_BATCH_SIZE:-16}
SEED=${SEED:-42}
DEVICE_MAP=${DEVICE_MAP:-auto}                              # cpu on a machine without a GPU
EVAL_DIR=${EVAL_DIR:-runs/eval/$(date +%Y%m%d-%H%M%S)}       # a new one each time: the table takes every report in it
# EvalScope's --dataset-args: offline copies ({"humaneval": {"local_path": "..."}}), and LiveCodeBench's window, which starts
# after the model's training data ends.
DATASET_ARGS=${DATASET_ARGS:-'{"live_code_bench": {"extra_params": {"start_date": "2024-08-01", "end_date": "2025-02-01"}}}'}

run() {
    if [[ ${DRY_RUN:-0} != 0 ]]; then
        "$PYTHON" -c 'import shlex, sys; print(shlex.join(sys.argv[1:]))' "$@"
    else
        "$@"
    fi
}

evaluate() { # NAME MODEL
    local datasets
    read -ra datasets <<<"$DATASETS"
    # EvalScope's own default for a local model is float16, which these models were not trained in.
    run "$PYTHON" -m evalscope.cli.cli eval --model "$2" --model-id "$1" --datasets "${datasets[@]}" --limit "$LIMIT" \
        --dataset-args "$DATASET_ARGS" --seed "$SEED" --eval-batch-size "$EVAL_BATCH_SIZE" \
        --generation-config "{\"do_sample\": false, \"max_tokens\": $MAX_TOKENS}" \
        --model-args "{\"precision\": \"torch.bfloat16\", \"device_map\": \"$DEVICE_MAP\"}" \
        --work-dir "$EVAL_DIR/$1" --no-timestamp
}

if [[ ${DRY_RUN:-0} != 0 ]]; then
    run "$PYTHON" -m evaluation.merge "$CHECKPOINT"
    merged="MERGED_FOLDER"
else
    merged=$("$PYTHON" -m evaluation.merge "$CHECKPOINT")
    echo "merged: $merged"
fi
evaluate base "$MODEL_PATH"
evaluate trained "$merged"
run "$PYTHON" -m evaluation.table "$EVAL_DIR/base" "$EVAL_DIR/trained"
