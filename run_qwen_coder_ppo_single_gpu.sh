#!/usr/bin/env bash
# PPO (GAE: actor, critic, frozen reference, vLLM rollout) for a Qwen2.5-Coder model on one node, through veRL's main_ppo.
# The reward is code_reward.py: the pass rate of the model's program on the problem's tests.
#
#   bash run_qwen_coder_ppo_single_gpu.sh                      0.5B, full parameters, one 24 GB GPU
#   LORA_RANK=32 MODEL_PATH=Qwen/Qwen2.5-Coder-1.5B-Instruct bash run_qwen_coder_ppo_single_gpu.sh
#   DRY_RUN=1 bash run_qwen_coder_ppo_single_gpu.sh            print the command, run nothing
#   bash run_qwen_coder_ppo_single_gpu.sh trainer.val_only=True          further veRL overrides come last and win
#
# Every setting is an environment variable. Option names are veRL 0.9.1's; training/verl_options.py turns them into those
# of the installed release (or of VERL_VERSION, where veRL is not installed).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHON=${PYTHON:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
"$PYTHON" "$here/training/start_folder.py"

for name in LORA_RANK NNODES NDEVICES_PER_NODE MAX_PROMPT_LENGTH MAX_RESPONSE_LENGTH; do  # calculated with here
    if [[ ! ${!name:-0} =~ ^(0|[1-9][0-9]*)$ ]]; then
        echo "$name=${!name} must be a whole number, 0 or more." >&2
        exit 2
    fi
done

# --- model -----------------------------------------------------------------------------------------------------------
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-Coder-0.5B-Instruct}
LORA_RANK=${LORA_RANK:-0}                        # 0: train all parameters
LORA_ALPHA=${LORA_ALPHA:-$((2 * LORA_RANK))}
if ((LORA_RANK > 0)); then critic=Qwen/Qwen2.5-Coder-0.5B-Instruct; else critic=$MODEL_PATH; fi
CRITIC_MODEL_PATH=${CRITIC_MODEL_PATH:-$critic}  # trained in full, so beside a LoRA actor it is the smallest of the family
ATTN_IMPLEMENTATION=${ATTN_IMPLEMENTATION:-$("$PYTHON" -m training.verl_options --attention)}  # flash_attention_2 if installed, else sdpa
USE_REMOVE_PADDING=${USE_REMOVE_PADDING:-True}   # padding counts for no limit: it takes memory on top of MAX_TOKENS_PER_GPU

# --- hardware --------------------------------------------------------------------------------------------------------
NNODES=${NNODES:-1}
NDEVICES_PER_NODE=${NDEVICES_PER_NODE:-1}
OFFLOAD=${OFFLOAD:-True}                         # actor and critic wait in host memory while vLLM generates
if ((LORA_RANK > 0)); then strategy=fsdp2; else strategy=fsdp; fi
ACTOR_STRATEGY=${ACTOR_STRATEGY:-$strategy}      # fsdp would copy all of a LoRA model's weights each time that vLLM gets them: 8 GB for 1.5B
MAX_TOKENS_PER_GPU=${MAX_TOKENS_PER_GPU:-4096}   # a micro batch; logits alone take 0.6 MB a token (151,936 words, fp32)
# Ray's CPUs are bookkeeping. Below 13 and 3 a GPU veRL 0.9 waits for ever at start-up, so small machines are told a lie.
RAY_NUM_CPUS=${RAY_NUM_CPUS:-$((13 + 3 * NDEVICES_PER_NODE))}

# --- data ------------------------------------------------------------------------------------------------------------
TRAIN_FILE=${TRAIN_FILE:-~/data/eurus2/train1000.parquet}
VAL_FILE=${VAL_FILE:-~/data/eurus2/validation.parquet}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-512}      # longer prompts are left out
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-512}
SEED=${SEED:-42}                                 # order of the training data

# --- algorithm -------------------------------------------------------------------------------------------------------
ADV_ESTIMATOR=${ADV_ESTIMATOR:-gae}              # grpo leaves the critic out; give it ROLLOUT_N > 1
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-128}        # prompts a step
PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-64}   # prompts an optimizer step
ACTOR_LR=${ACTOR_LR:-1e-6}
CRITIC_LR=${CRITIC_LR:-1e-5}
CLIP_RATIO=${CLIP_RATIO:-0.2}
KL_COEF=${KL_COEF:-0.001}                        # of the KL penalty in the reward; 0: no penalty and no reference model
if [[ $KL_COEF =~ ^[0.]+$ ]]; then use_kl=False; else use_kl=True; fi

# --- rollout ---------------------------------------------------------------------------------------------------------
ROLLOUT_TP=${ROLLOUT_TP:-1}                      # tensor parallelism of one vLLM engine
ROLLOUT_GPU_MEM_UTIL=${ROLLOUT_GPU_MEM_UTIL:-0.4}
ROLLOUT_N=${ROLLOUT_N:-1}                        # responses a prompt
TEMPERATURE=${TEMPERATURE:-1.0}
ENFORCE_EAGER=${ENFORCE_EAGER:-False}            # True: no CUDA graphs; starts sooner, generates slower
AGENT_WORKERS=${AGENT_WORKERS:-4}                # processes that feed prompts to vLLM

# --- reward ----------------------------------------------------------------------------------------------------------
REWARD_FILE=${REWARD_FILE:-$here/code_reward.py}
REWARD_WORKERS=${REWARD_WORKERS:-4}              # processes that call compute_score
export MAX_INTERNAL_ERRORS=${MAX_INTERNAL_ERRORS:-0.05}  # the run stops when more of the latest responses got no verdict

# --- run -------------------------------------------------------------------------------------------------------------
TOTAL_EPOCHS=${TOTAL_EPOCHS:-20}
TOTAL_TRAINING_STEPS=${TOTAL_TRAINING_STEPS:-null}  # null: as many as the epochs hold
SAVE_FREQ=${SAVE_FREQ:-20}
TEST_FREQ=${TEST_FREQ:-5}
VAL_BEFORE_TRAIN=${VAL_BEFORE_TRAIN:-True}       # the baseline that every later validation is read against
MAX_CKPT_TO_KEEP=${MAX_CKPT_TO_KEEP:-2}          # one takes about 12 bytes a parameter, actor and critic each
RESUME_MODE=${RESUME_MODE:-auto}                 # auto: go on from the last checkpoint in RUN_DIR; disable: start afresh
LOGGER=${LOGGER:-console,file,tensorboard}       # also: wandb, swanlab
PROJECT_NAME=${PROJECT_NAME:-qwen_coder_ppo}
model_name=${MODEL_PATH%/}
EXPERIMENT_NAME=${EXPERIMENT_NAME:-$(basename -- "$model_name" | tr '[:upper:]' '[:lower:]')_$ADV_ESTIMATOR}
RUN_DIR=${RUN_DIR:-runs/$EXPERIMENT_NAME}        # everything that the run writes
RUN_DIR=$(realpath -m -- "$RUN_DIR")

DATA=(
    data.train_files="$TRAIN_FILE"
    data.val_files="$VAL_FILE"
    data.prompt_key=prompt
    data.max_prompt_length="$MAX_PROMPT_LENGTH"
    data.max_response_length="$MAX_RESPONSE_LENGTH"
    data.train_batch_size="$TRAIN_BATCH_SIZE"
    data.filter_overlong_prompts=True
    data.truncation=error
    data.return_raw_chat=True
    data.dataloader_num_workers=2
    data.seed="$SEED"
)
ALGORITHM=(
    algorithm.adv_estimator="$ADV_ESTIMATOR"
    algorithm.gamma=1.0
    algorithm.lam=1.0
    algorithm.use_kl_in_reward="$use_kl"
    algorithm.kl_penalty=kl
    algorithm.kl_ctrl.type=fixed
    algorithm.kl_ctrl.kl_coef="$KL_COEF"
)
ACTOR=(
    actor_rollout_ref.actor.strategy="$ACTOR_STRATEGY"
    actor_rollout_ref.model.path="$MODEL_PATH"
    actor_rollout_ref.model.enable_gradient_checkpointing=True
    actor_rollout_ref.model.use_remove_padding="$USE_REMOVE_PADDING"
    ++actor_rollout_ref.model.override_config.attn_implementation="$ATTN_IMPLEMENTATION"
    actor_rollout_ref.actor.optim.lr="$ACTOR_LR"
    actor_rollout_ref.actor.clip_ratio="$CLIP_RATIO"
    actor_rollout_ref.actor.entropy_coeff=0
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.ppo_mini_batch_size="$PPO_MINI_BATCH_SIZE"
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
    actor_rollout_ref.actor.fsdp_config.param_offload="$OFFLOAD"
    actor_rollout_ref.actor.fsdp_config.optimizer_offload="$OFFLOAD"
)
if ((LORA_RANK > 0)); then
    ACTOR+=(
        actor_rollout_ref.model.lora_rank="$LORA_RANK"
        actor_rollout_ref.model.lora_alpha="$LORA_ALPHA"
        actor_rollout_ref.model.target_modules=all-linear
        actor_rollout_ref.model.lora.merge=True  # vLLM gets merged weights: no adapter to load, none to go stale
    )
fi
ROLLOUT=(
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.mode=async
    actor_rollout_ref.rollout.tensor_model_parallel_size="$ROLLOUT_TP"
    actor_rollout_ref.rollout.gpu_memory_utilization="$ROLLOUT_GPU_MEM_UTIL"
    actor_rollout_ref.rollout.max_model_len=$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))
    actor_rollout_ref.rollout.enforce_eager="$ENFORCE_EAGER"
    actor_rollout_ref.rollout.free_cache_engine=True
    actor_rollout_ref.rollout.n="$ROLLOUT_N"
    actor_rollout_ref.rollout.temperature="$TEMPERATURE"
    actor_rollout_ref.rollout.val_kwargs.do_sample=False
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
    actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
    actor_rollout_ref.rollout.agent.num_workers="$AGENT_WORKERS"
)
REFERENCE=(
    actor_rollout_ref.ref.log_prob_use_dynamic_bsz=True
    actor_rollout_ref.ref.log_prob_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
    actor_rollout_ref.ref.fsdp_config.param_offload=True
)
CRITIC=(
    critic.model.path="$CRITIC_MODEL_PATH"
    critic.model.enable_gradient_checkpointing=True
    critic.model.use_remove_padding="$USE_REMOVE_PADDING"
    ++critic.model.override_config.attn_implementation="$ATTN_IMPLEMENTATION"
    critic.optim.lr="$CRITIC_LR"
    critic.use_dynamic_bsz=True
    critic.ppo_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"
    ++critic.ppo_infer_max_token_len_per_gpu="$MAX_TOKENS_PER_GPU"  # 0.9.1 trains by this one too; its default is 32768
    critic.fsdp.param_offload="$OFFLOAD"
    critic.fsdp.optimizer_offload="$OFFLOAD"
)
# Both names: 0.9.1 ignores the old one without a word, older releases know nothing else.
REWARD=(
    custom_reward_function.path="$REWARD_FILE"
    custom_reward_function.name=compute_score
    ++reward.custom_reward_function.path="$REWARD_FILE"
    ++reward.custom_reward_function.name=compute_score
    reward.num_workers="$REWARD_WORKERS"
    reward.reward_manager.name=naive
)
TRAINER=(
    trainer.logger="[$LOGGER]"
    trainer.project_name="$PROJECT_NAME"
    trainer.experiment_name="$EXPERIMENT_NAME"
    trainer.nnodes="$NNODES"
    trainer.n_gpus_per_node="$NDEVICES_PER_NODE"
    trainer.total_epochs="$TOTAL_EPOCHS"
    trainer.total_training_steps="$TOTAL_TRAINING_STEPS"
    trainer.save_freq="$SAVE_FREQ"
    trainer.test_freq="$TEST_FREQ"
    trainer.val_before_train="$VAL_BEFORE_TRAIN"
    trainer.critic_warmup=0
    trainer.resume_mode="$RESUME_MODE"
    trainer.max_actor_ckpt_to_keep="$MAX_CKPT_TO_KEEP"
    trainer.max_critic_ckpt_to_keep="$MAX_CKPT_TO_KEEP"
    trainer.default_local_dir="$RUN_DIR/checkpoints"
    trainer.rollout_data_dir="$RUN_DIR/rollouts"
    trainer.validation_data_dir="$RUN_DIR/validation"
    hydra.run.dir="$RUN_DIR/hydra"
    # One unit is enough below a thousand GPUs, and each of the default eight waits for a CPU of its own.
    transfer_queue.backend.SimpleStorage.num_data_storage_units=1
)

# --- what every process of the run reads from its environment --------------------------------------------------------
export VERL_USE_EXTERNAL_MODULES="training.verl_patches${VERL_USE_EXTERNAL_MODULES:+,$VERL_USE_EXTERNAL_MODULES}"
export VERL_FILE_LOGGER_PATH="$RUN_DIR/metrics.jsonl"
export TENSORBOARD_DIR="$RUN_DIR/tensorboard"
export CODE_REWARD_LOG_DIR="$RUN_DIR/reward_log"
export RAY_USAGE_STATS_ENABLED=${RAY_USAGE_STATS_ENABLED:-0} VLLM_NO_USAGE_STATS=${VLLM_NO_USAGE_STATS:-1}
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore::UserWarning:verl.workers.engine}  # engines that nobody asked for
if ((NNODES > 1)) || [[ -n ${RAY_ADDRESS:-} ]]; then
    # An existing cluster: its workers do not inherit this shell, and Ray refuses resource counts when it joins one.
    RAY=(++ray_kwargs.ray_init.address="${RAY_ADDRESS:-auto}")
    for name in PYTHONPATH VERL_USE_EXTERNAL_MODULES VERL_FILE_LOGGER_PATH TENSORBOARD_DIR \
        "${!CODE_REWARD_@}" "${!REWARD_LOG@}" "${!SANDBOX_FUSION_@}"; do
        RAY+=("++ray_kwargs.ray_init.runtime_env.env_vars.$name=\"${!name}\"")
    done
else
    RAY=(
        ++ray_kwargs.ray_init.address=local            # not somebody's cluster that happens to run on this machine
        ray_kwargs.ray_init.num_cpus="$RAY_NUM_CPUS"
        ++ray_kwargs.ray_init.include_dashboard=False  # where it cannot start, waiting for it takes a minute
    )
fi

overrides=$("$PYTHON" -m training.verl_options \
    "${DATA[@]}" "${ALGORITHM[@]}" "${ACTOR[@]}" "${ROLLOUT[@]}" "${REFERENCE[@]}" "${CRITIC[@]}" \
    "${REWARD[@]}" "${TRAINER[@]}" "${RAY[@]}" -- "$@")
mapfile -t OVERRIDES <<<"$overrides"

if [[ ${DRY_RUN:-0} != 0 ]]; then
    exec "$PYTHON" -m training.run_record "${OVERRIDES[@]}"
fi

"$PYTHON" -m training.preflight "$RUN_DIR" "${OVERRIDES[@]}"
exec "$PYTHON" -m training.watch "$RUN_DIR" --max-internal-errors "$MAX_INTERNAL_ERRORS" -- \
    "$PYTHON" -m verl.trainer.main_ppo "${OVERRIDES[@]}"
