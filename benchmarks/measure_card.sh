#!/usr/bin/env bash
# Measures one NVIDIA GPU, what is worth most first: the ladder of sd15, then torch and onnxruntime, then bare loops beside
# ours, what the rules are worth on this card, every kernel of attention, pictures of a trained model, second calls, whole
# requests, larger models, the same with torch, and other choices of convolutions. Prints what is stored last.
#
#     benchmarks/measure_card.sh [FOLDER [STEP ...]]      default: ./card, every step
#
# FOLDER gets baselines/, one JSON file and one log per step. A step that was done is not done again, and of one that was
# interrupted only the rest is measured: start the script again. GPU names the card (default: auto), BUDGET the time of
# the self-test (default: 8m), MORE options for every step. To try the script where there is none:
#
#     GPU=cpu MODEL=sd15-thin LARGER=sd21-thin ORT=ort-cpu COMPILED= LADDER=fp32,fp16 LAST=fp16 KERNELS= CHOICES=
#     BUDGET=90s
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=(hardware ladder torch onnxruntime loops selftest attention pictures replay requests larger larger-torch convolutions)
folder=${1:-card}
shift $(($# > 0 ? 1 : 0))
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
for step in "${steps[@]}"; do # before any of them takes its minutes
  [[ " ${all[*]} " == *" $step "* ]] || { echo "there is no step $step; there are ${all[*]}"; exit 4; }
done
gpu=${GPU:-auto} model=${MODEL:-sd15} larger=${LARGER:-sdxl,sd21} ort=${ORT:-ort-cuda} last=${LAST:-bias-add}
graph=${GRAPH-:cuda_graph=on} compiled=${COMPILED-torch-compile:mode=reduce-overhead}
kernels=${KERNELS-auto,cudnn,flash,efficient,math}
choices=${CHOICES-tf32=off,conv_search=heuristic,conv_workspace=limited,conv_bias=on}
[ "$gpu" = cpu ] && graph=
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
ended=0
trap 'exit 2' INT # once the step in progress has ended, which is not done then

# Puts the seconds since the step began before each line, so that a log says where the time went.
timed() {
  trap '' INT # what is read says itself that it was interrupted
  local begun=$SECONDS line
  while IFS= read -r line; do printf '%4d %s\n' $((SECONDS - begun)) "$line"; done
}

# Runs pytest for a step, unless its results are there.
measured() {
  local step=$1
  shift
  [ -e "$folder/$step.json" ] && { echo "$step: done before"; return; }
  local begun=$SECONDS
  PYTHONUNBUFFERED=1 python3 -m pytest "$@" -v --durations=0 --gpu="$gpu" --sdperf-baselines="$folder/baselines" \
    --sdperf-update-baselines --sdperf-resume --sdperf-json="$folder/$step.part" ${MORE:-} 2>&1 | timed > "$folder/$step.log"
  local status=${PIPESTATUS[0]}
  printf '%s: exit %d after %d s\n' "$step" "$status" $((SECONDS - begun))
  # 0 to 1 and 10 to 12: every test came to its end, whatever the verdict.
  case $status in 0 | 1 | 10 | 11 | 12) mv "$folder/$step.part" "$folder/$step.json" ;; *) ended=1 ;; esac
}

# Prints the engine with every kernel of attention that it can be told to take, with and without its CUDA graph.
with_each_kernel() {
  local kernel list=
  [ -n "$kernels" ] || { echo "$ort"; return; }
  for kernel in ${kernels//,/ }; do list+=",$ort:sdpa=$kernel${graph:+,$ort$graph,sdpa=$kernel}"; done
  echo "${list#,}"
}

suites=(suites/test_agreement.py suites/test_pipelines.py)
for step in "${steps[@]}"; do
  case $step in
    hardware)
      python3 -m pytest tests/devices/test_real_gpu.py tests/engines/test_real_ort_cuda.py tests/engines/test_real_torch.py \
        -q -p no:cacheprovider > "$folder/hardware.log" 2>&1
      echo "hardware: exit $?, $(tail -1 "$folder/hardware.log")" ;;
    ladder)
      measured ladder "${suites[@]}" --engine="$ort$graph" --model="$model" --component=unet --batch-size=1,8 \
        --optimization="${LADDER:-ladder}" ;;
    torch)
      measured torch "${suites[@]}" --engine="torch${compiled:+,$compiled}" --model="$model" --component=unet ;;
    onnxruntime)
      measured onnxruntime "${suites[@]}" --engine="$ort${graph:+,$ort$graph}" --model="$model" --optimization="$last" \
        --component=unet,vae_decoder,text_encoder ;;
    loops)
      measured loops benchmarks/bare_loops.py --engine="$ort$graph" --model="$model" --component=unet --batch-size=1,8 \
        --optimization="$last"
      measured torch-loops benchmarks/bare_loops.py --engine=torch --model="$model" --component=unet --batch-size=8
      grep -h ', ratio ' "$folder/loops.log" "$folder/torch-loops.log" ;;
    selftest)
      # What it has it keeps in the state folder, and goes on from there.
      PYTHONUNBUFFERED=1 python3 -m pytest suites/test_pipelines.py --gpu="$gpu" --engine="$ort$graph" --model="$model" \
        --component=unet --optimization="$last" --sdperf-selftest --time-budget="${BUDGET:-8m}" \
        --sdperf-state-dir="$folder/state" 2>&1 | timed > "$folder/selftest.log"
      echo "selftest: exit ${PIPESTATUS[0]}" ;;
    attention)
      measured attention suites/test_agreement.py --engine="$(with_each_kernel)" --model="$model" --component=unet \
        --batch-size=1,4,8 --optimization="$last" ;;
    pictures)
      measured pictures suites/test_agreement.py suites/test_precision.py suites/test_semantics.py \
        --engine="torch,$ort${graph:+,$ort$graph}" --model=shapes ;;
    replay)
      measured replay suites/test_replay.py --engine="$ort${graph:+,$ort$graph}" --model=shapes
      measured replay-large suites/test_replay.py --engine="$ort$graph" --model="$model" --component=unet \
        --optimization="$last" ;;
    larger)
      # One model after the other: of a run that is interrupted nothing can be accepted.
      for one in ${larger//,/ }; do
        measured "larger-$one" "${suites[@]}" --engine="$ort${graph:+,$ort$graph}" --model="$one" --component=unet \
          --optimization="$last"
      done ;;
    larger-torch)
      for one in ${larger//,/ }; do
        measured "larger-$one-torch" "${suites[@]}" --engine="torch${compiled:+,$compiled}" --model="$one" --component=unet
      done ;;
    convolutions)
      # What options of the provider are worth where images are large: to be compared with the steps `onnxruntime` and
      # `larger`, in which each has its default.
      [ -n "$choices" ] || { echo "convolutions: no choices"; continue; }
      list=
      for choice in ${choices//,/ }; do list+=",$ort${graph:-:}${graph:+,}$choice"; done
      measured convolutions "${suites[@]}" --engine="${list#,}" --model="$model" --component=vae_decoder \
        --optimization="$last" --sdperf-processes=1 --sdperf-max-processes=1
      measured convolutions-larger "${suites[@]}" --engine="${list#,}" --model="${larger%%,*}" --component=unet \
        --optimization="$last" --sdperf-processes=1 --sdperf-max-processes=1 ;;
    requests)
      measured requests "${suites[@]}" --engine="$ort$graph" --model="$model" --component=pipeline --optimization="$last" \
        --sdperf-processes=1 --sdperf-max-processes=1 ;;
  esac
done
python3 -c 'import sys; from pytest_sdperf.cli import main; sys.exit(main(sys.argv[1:]))' \
  baselines list --baselines="$folder/baselines"
exit "$ended"
