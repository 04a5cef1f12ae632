# shellcheck shell=bash
# What a run without a GPU needs beside the run script's own settings. To be sourced; then
#     bash run_qwen_coder_ppo_single_gpu.sh "${CPU_OVERRIDES[@]}"
# is a CPU run with the script's batch sizes and lengths (smoke/run.sh sets small ones).

export VERL_USE_EXTERNAL_MODULES=smoke.cpu_platform${VERL_USE_EXTERNAL_MODULES:+,$VERL_USE_EXTERNAL_MODULES}
if [[ -z ${CUDA_VISIBLE_DEVICES-unset} ]]; then unset CUDA_VISIBLE_DEVICES; fi  # Ray would refuse to count a GPU below
export AGENT_WORKERS=${AGENT_WORKERS:-1} REWARD_WORKERS=${REWARD_WORKERS:-1}  # each is a process that takes 8 s to import veRL
export LOGGER=${LOGGER:-console,file}
export USE_REMOVE_PADDING=${USE_REMOVE_PADDING:-False}  # a packed batch takes attention over all of it: 47 s a step, not 18

# These two only keep the log readable.
export TQ_NUM_THREADS=${TQ_NUM_THREADS:-1}                   # its default of 8 warns at every call on a smaller machine
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=${RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO:-0}

# veRL computes in bfloat16 unless this says otherwise (fsdp_config.dtype has no effect in 0.9.1). In float32 the rollout's
# log-probs equal the actor's to nine digits, and most CPUs are several times faster.
float32='{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}'

# shellcheck disable=SC2034  # for the caller
CPU_OVERRIDES=(
    trainer.device=cpu
    actor_rollout_ref.rollout.name=hf                        # smoke/cpu_rollout.py
    actor_rollout_ref.actor.strategy=fsdp2                   # FSDP1 refuses to start from parameters on the CPU
    critic.strategy=fsdp2
    ++actor_rollout_ref.actor.fsdp_config.mixed_precision="$float32"
    ++actor_rollout_ref.ref.fsdp_config.mixed_precision="$float32"
    ++critic.fsdp.mixed_precision="$float32"
    actor_rollout_ref.actor.use_torch_compile=False          # would need a C++ compiler, and minutes
    actor_rollout_ref.actor.fsdp_config.use_torch_compile=False
    actor_rollout_ref.ref.use_torch_compile=False
    actor_rollout_ref.ref.fsdp_config.use_torch_compile=False
    critic.fsdp.use_torch_compile=False
    data.dataloader_num_workers=0
    ++ray_kwargs.ray_init.num_gpus="${NDEVICES_PER_NODE:-1}"  # bookkeeping: veRL counts its workers in GPUs
)
