"""The parts of smoke/: batch decoding against plain forward passes, the rollout server, the tiny model, the CPU platform."""

import asyncio
import filecmp
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
from transformers import AutoModelForCausalLM, AutoTokenizer

from smoke import decoding, tiny_model
from smoke.decoding import Request, decode

ROOT = Path(__file__).resolve().parent.parent
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Print 42."}]
PROMPTS = [[5], [9, 8, 7, 6, 5, 4, 3], [20, 21, 22, 23], list(range(30, 90))]  # token ids, of very different lengths


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Passes this small are slower on several threads, and much slower where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "model"
    tiny_model.save(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder):
    """The tiny model with sharper logits: fresh ones are so even that rounding could decide a greedy choice."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        model.model.norm.weight.mul_(20)
    return model


def forward_log_probs(model, prompt, tokens, temperature=1.0):
    """Log-probability of each of `tokens` after `prompt`, by one forward pass without padding or cache."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].float()
    return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


def greedy_one_by_one(model, prompt, budget):
    tokens = []
    for _ in range(budget):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([prompt + tokens])).logits[0, -1].argmax()))
    return tokens


def test_greedy_batch_equals_one_by_one(model):
    requests = [Request(prompt, max_new_tokens=12, temperature=0) for prompt in PROMPTS]
    for prompt, completion in zip(PROMPTS, decode(model, requests, eos_ids=set()), strict=True):
        assert completion.tokens == greedy_one_by_one(model, prompt, 12)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_log_probs_are_those_of_a_plain_forward_pass(model, temperature):
    requests = [Request(prompt, 12, temperature, seed=i) for i, prompt in enumerate(PROMPTS)]
    for prompt, completion in zip(PROMPTS, decode(model, requests, set()), strict=True):
        expected = forward_log_probs(model, prompt, completion.tokens, temperature)
        torch.testing.assert_close(torch.tensor(completion.log_probs), expected, atol=1e-4, rtol=0)


def test_sampling_does_not_depend_on_the_rest_of_the_batch(model):
    requests = [Request(prompt, 12, seed=i) for i, prompt in enumerate(PROMPTS)]
    together = decode(model, requests, set())
    for request, completion in zip(requests, together, strict=True):
        assert decode(model, [request], set())[0].tokens == completion.tokens
    assert decode(model, [replace(requests[3], seed=99)], set())[0].tokens != together[3].tokens


def test_budgets_hold_row_by_row(model):
    requests = [Request(PROMPTS[1], budget, temperature=0) for budget in (1, 5, 12)]
    short, middle, long = (completion.tokens for completion in decode(model, requests, set()))
    assert (len(short), len(middle), len(long)) == (1, 5, 12)
    assert long[:5] == middle and long[:1] == short


def test_an_answer_ends_with_its_first_end_of_sequence_token(model):
    free = decode(model, [Request(PROMPTS[2], 12, seed=1)], set())[0]
    stop = free.tokens[4]
    cut = free.tokens[: free.tokens.index(stop) + 1]
    others = Request(PROMPTS[0], 12, seed=2)
    stopped, other = decode(model, [Request(PROMPTS[2], 12, seed=1), others], {stop, 10**6})
    assert stopped.tokens == cut and len(stopped.log_probs) == len(cut)
    assert other.tokens == decode(model, [others], {stop})[0].tokens  # goes on after its neighbour has ended


def test_choice_follows_the_distribution():
    probabilities = torch.tensor([0.0, 0.5, 0.3, 0.2])
    rows = 20_000
    draws = torch.rand(rows, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draws[0] = 0.0  # must not fall on the impossible token
    chosen, log_probs = decoding._choose(probabilities.log().expand(rows, -1), [Request([0], 1)] * rows, draws)
    shares = torch.bincount(chosen, minlength=4) / rows
    torch.testing.assert_close(shares, probabilities, atol=0.02, rtol=0)
    assert shares[0] == 0
    torch.testing.assert_close(log_probs.exp(), probabilities[chosen])


@pytest.mark.parametrize(
    ("options", "allowed"),
    [({"top_p": 0.55}, {0, 2}), ({"top_p": 0.5}, {0}), ({"top_k": 3}, {0, 2, 3}), ({"top_k": 3, "top_p": 0.83}, {0, 2})],
)
def test_truncation_keeps_the_likeliest_tokens_and_renormalises(options, allowed):
    probabilities = torch.tensor([0.5, 0.05, 0.3, 0.15])
    draws = torch.linspace(0, 0.999, 200, dtype=torch.float64)
    logits = probabilities.log().expand(len(draws), -1).clone()
    chosen, log_probs = decoding._choose(logits, [Request([0], 1, **options)] * len(draws), draws)
    assert set(chosen.tolist()) == allowed
    mass = sum(float(probabilities[token]) for token in allowed)
    torch.testing.assert_close(log_probs.exp(), probabilities[chosen] / mass)


# ---- the tiny model


def test_tiny_model_is_the_same_every_time(folder, tmp_path):
    tiny_model.save(tmp_path / "again")
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= set(names)
    assert filecmp.cmpfiles(folder, tmp_path / "again", names, shallow=False)[0] == names


def test_tiny_model_is_a_small_qwen2(model, tokenizer):
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert 200_000 < model.num_parameters() < 1_500_000
    assert type(tokenizer).__name__.startswith("Qwen2Tokenizer")
    assert model.config.vocab_size == len(tokenizer) <= 2048
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"
    assert set(model.generation_config.eos_token_id) == {tokenizer.eos_token_id, tokenizer.pad_token_id}


def test_tokenizer_keeps_any_text(tokenizer):
    text = "def f(x):\n\treturn x + 1  # ünïcödé ☃ 中文\n\n12345"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.tokenize("12345") == list("12345")
    assert len(tokenizer("a, b = map(int, input().split())\nprint(a + b)").input_ids) < 25


def test_chat_template_renders_messages(tokenizer):
    def render(messages, generation=True):
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation)

    question = "<|im_start|>user\nPrint 42.<|im_end|>\n"
    assert render(CHAT) == f"<|im_start|>system\nBe brief.<|im_end|>\n{question}<|im_start|>assistant\n"
    default = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    answer = {"role": "assistant", "content": "print(42)"}
    assert render([CHAT[1], answer], False) == f"{default}{question}<|im_start|>assistant\nprint(42)<|im_end|>\n"
    ids = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>") and ids.count(tokenizer.eos_token_id) == 2
    assert "Print 42." not in render("Print 42.")  # as with Qwen: why prepare_data.py writes messages


def test_tiny_model_overwrites_nothing(folder):
    before = sorted(path.stat().st_mtime_ns for path in folder.iterdir())
    with pytest.raises(FileExistsError, match="remove it or name another folder"):
        tiny_model.save(folder)
    assert sorted(path.stat().st_mtime_ns for path in folder.iterdir()) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


# ---- veRL's side


@pytest.fixture(scope="module")
def cpu_rollout():
    pytest.importorskip("verl")
    from smoke import cpu_rollout

    return cpu_rollout


@pytest.fixture
def server(cpu_rollout, folder):
    return cpu_rollout.RolloutServer(str(folder), prompt_length=64, response_length=8, max_batch=3, seed=1)


SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}


async def ask(server, prompts, return_exceptions=False, **options):
    requests = (server.generate(str(i), prompt, SAMPLING | options) for i, prompt in enumerate(prompts))
    return await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=return_exceptions), timeout=120)


def test_server_decodes_concurrent_requests_together(server, cpu_rollout, monkeypatch):
    batches = []

    def counted(model, requests, *rest):
        batches.append(len(requests))
        return decode(model, requests, *rest)

    monkeypatch.setattr(cpu_rollout, "decode", counted)
    outputs = asyncio.run(ask(server, PROMPTS, max_tokens=4))
    assert batches == [3, 1]  # max_batch is 3
    assert all(1 <= len(output.token_ids) <= 4 for output in outputs)
    assert all(len(output.log_probs) == len(output.token_ids) for output in outputs)


def test_server_repeats_itself_only_with_the_same_weights_and_seed(cpu_rollout, folder):
    def tokens(seed, prompts):
        server = cpu_rollout.RolloutServer(str(folder), 64, 8, max_batch=8, seed=seed)
        return [output.token_ids for output in asyncio.run(ask(server, prompts))]

    first = tokens(1, PROMPTS)
    assert tokens(1, PROMPTS[::-1])[::-1] == first  # whatever the order of arrival
    assert tokens(2, PROMPTS) != first
    once, twice = tokens(1, [PROMPTS[1]] * 2)
    assert once == first[1] and twice != once  # two samples of one prompt are two samples


def test_server_takes_new_weights(server, cpu_rollout):
    before = asyncio.run(ask(server, PROMPTS, temperature=0))
    weights = {name: x.clone() for name, x in server.model.state_dict().items()}
    weights["model.layers.0.mlp.down_proj.weight"] += 1
    asyncio.run(server.update_weights(weights, global_steps=7))
    after = asyncio.run(ask(server, PROMPTS, temperature=0))
    assert [x.token_ids for x in after] != [x.token_ids for x in before]
    assert after[0].extra_fields == {"global_steps": 7}
    del weights["model.norm.weight"]
    with pytest.raises(RuntimeError, match=r"model\.norm\.weight"):
        asyncio.run(server.update_weights(weights, global_steps=8))


def test_server_passes_errors_on_and_lives(server, cpu_rollout, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("out of order")

    async def twice():
        with monkeypatch.context() as patch:
            patch.setattr(cpu_rollout, "decode", broken)
            failed = await ask(server, PROMPTS, return_exceptions=True)
        return failed, await ask(server, PROMPTS)

    failed, answered = asyncio.run(twice())
    assert [str(error) for error in failed] == ["out of order"] * len(PROMPTS)
    assert len(answered) == len(PROMPTS)


def test_requests_in_veRLs_terms(cpu_rollout):
    request = cpu_rollout.to_request([1, 2], SAMPLING | {"temperature": 0.5, "top_p": 0.9}, room=8, seed=3)
    assert request == Request([1, 2], max_new_tokens=8, temperature=0.5, top_p=0.9, top_k=0, seed=3)
    assert cpu_rollout.to_request([1], SAMPLING | {"max_tokens": 5}, room=8, seed=0).max_new_tokens == 5
    assert cpu_rollout.to_request([1], SAMPLING | {"max_tokens": 50}, room=8, seed=0).max_new_tokens == 8
    with pytest.raises(ValueError, match="leaves no room"):
        cpu_rollout.to_request([1] * 9, SAMPLING, room=0, seed=0)
    for unknown in ({"repetition_penalty": 1.2}, {"stop": ["\n"]}, {"min_tokens": 3}):
        with pytest.raises(ValueError, match=next(iter(unknown))):
            cpu_rollout.to_request([1], SAMPLING | unknown, room=8, seed=0)


PLATFORM = """
import verl
import torch.distributed.fsdp
from verl.plugin.platform import platform_manager
from verl.utils import device, distributed
from verl.utils.checkpoint.checkpoint_manager import BaseCheckpointManager
from verl.workers.engine import EngineRegistry
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class

assert device.get_device_name() == "cpu" and device.get_device_id() == "cpu"
free, total = device.get_torch_device().mem_get_info()
assert 0 < free < total and 0 < device.get_torch_device().memory_allocated() < total
BaseCheckpointManager.load_rng_state(BaseCheckpointManager.get_rng_state())  # as when a run resumes
assert distributed.initialize_global_process_group_ray.keywords == {"backend": "gloo"}
assert not torch.distributed.fsdp.CPUOffloadPolicy(pin_memory=True).pin_memory
print(get_rollout_class("hf").__name__, get_rollout_replica_class("hf").__name__)
print(EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__)

from smoke import cpu_platform
cpu_platform.use_cpu_platform()  # twice is no harm
platform_manager._current_platform = platform_manager.PlatformCUDA()
try:
    cpu_platform.use_cpu_platform()
except RuntimeError as error:
    print(error)
"""


def test_verl_takes_the_platform_while_it_is_imported(cpu_rollout):
    environment = {"PYTHONPATH": str(ROOT), "VERL_USE_EXTERNAL_MODULES": "training.verl_patches,smoke.cpu_platform"}
    done = subprocess.run(
        [sys.executable, "-c", PLATFORM], env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    classes, engine, refusal = done.stdout.splitlines()
    assert (classes, engine) == ("CpuRollout CpuReplica", "FSDPEngineWithLMHead")
    assert refusal.startswith("smoke.cpu_platform came too late") and "VERL_USE_EXTERNAL_MODULES" in refusal


# ---- the two-step run's command (tests/test_smoke_run.py runs it)


def command_of(tmp_path, **environment):
    arguments = [ROOT / "smoke" / "run.sh", tmp_path / "work", "t.parquet", "v.parquet", "trainer.val_only=True"]
    settings = {"DRY_RUN": "1", "PYTHON": sys.executable} | environment
    done = subprocess.run(["bash", *arguments], env=os.environ | settings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "work").exists()
    words = shlex.split(done.stdout[done.stdout.index("verl.trainer.main_ppo") :].replace("\\\n", " "))
    return dict(word.lstrip("+").split("=", 1) for word in words[1:])


@pytest.mark.parametrize("steps", ("abc", "0", "-1", "08"))
def test_a_number_of_steps_that_is_none(tmp_path, steps):
    command = ["bash", ROOT / "smoke" / "run.sh", tmp_path / "work", "t.parquet", "v.parquet"]
    done = subprocess.run(command, env=os.environ | {"STEPS": steps}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"STEPS={steps} must be a whole number, 1 or more.\n")
    assert not (tmp_path / "work").exists()


def test_without_a_gpu_the_cpu_takes_the_place_of_vllm(tmp_path):
    options = command_of(tmp_path, CUDA_VISIBLE_DEVICES="")
    assert options["trainer.device"] == "cpu" and options["actor_rollout_ref.rollout.name"] == "hf"
    assert options["trainer.total_training_steps"] == "2" and options["trainer.val_only"] == "True"
    assert options["actor_rollout_ref.model.path"] == str(tmp_path / "work" / "model")
    assert options["reward.custom_reward_function.path"] == str(ROOT / "code_reward.py")


def test_with_a_gpu_nothing_of_the_cpu_run_is_left(tmp_path):
    driver, python = tmp_path / "nvidia-smi", tmp_path / "python"
    driver.write_text("#!/bin/sh\n")
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exec {shlex.quote(sys.executable)} "$@"\n')  # "torch sees the GPU"
    for program in (driver, python):
        program.chmod(0o755)
    options = command_of(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHON=str(python))
    assert options["actor_rollout_ref.rollout.name"] == "vllm"
    assert options["trainer.total_training_steps"] == "2" and options["trainer.val_only"] == "True"
    assert not {"trainer.device", "critic.strategy", "ray_kwargs.ray_init.num_gpus"} & options.keys()


def test_a_second_run_goes_on_where_the_first_ended(tmp_path):
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("6")
    done = subprocess.run(
        ["bash", ROOT / "smoke" / "run.sh", tmp_path, "t.parquet", "v.parquet"],
        env=os.environ | {"DRY_RUN": "1", "PYTHON": sys.executable, "STEPS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "trainer.total_training_steps=9" in done.stdout and "trainer.total_epochs=9" in done.stdout
