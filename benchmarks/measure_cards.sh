#!/usr/bin/env bash
# Several GPUs of one host, each with a list of steps of measure_card.sh, side by side and in the background, for
# machines on which a command may not run for long: each call starts what does not run, waits, and says how far it is.
#
#     benchmarks/measure_cards.sh SECONDS FOLDER "GPU STEP ..." ["GPU STEP ..." ...]
#
#     benchmarks/measure_cards.sh 540 card "0 ladder torch onnxruntime loops" "1 attention pictures replay"     and again, until
#     both say that they have ended; then SECONDS=0 stops whatever runs, which goes on with the next call
#
# The lists of one GPU take turns by the suite's own lock, but a time is only worth something where a GPU has one list.
# FOLDER/GPU gets what measure_card.sh writes. Settings are those of measure_card.sh.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 3 ] || { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 4; }
limit=$1 folder=$2
shift 2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Whether the list of a GPU is still worked on.
runs() {
  [ -e "$folder/$1.pid" ] && kill -0 "$(< "$folder/$1.pid")" 2> /dev/null
}

for list in "$@"; do
  read -r gpu steps <<< "$list"
  { [ "$limit" -gt 0 ] && [ ! -e "$folder/$gpu.ended" ] && ! runs "$gpu"; } || continue
  echo "GPU $gpu begins: $steps"
  # A session of its own, so that it outlives this call, and can be interrupted as a whole: what a shell starts in the
  # background ignores interrupts otherwise.
  # shellcheck disable=SC2016,SC2086
  CUDA_VISIBLE_DEVICES=$gpu setsid nohup env --default-signal=INT bash -c \
    '"$0" "$1" "${@:4}" >> "$2" 2>&1 && touch "$3"' "$here/measure_card.sh" "$folder/$gpu" "$folder/$gpu.log" \
    "$folder/$gpu.ended" $steps > /dev/null 2>&1 < /dev/null &
  echo $! > "$folder/$gpu.pid"
done

begun=$SECONDS
while [ $((SECONDS - begun)) -lt "$limit" ]; do
  working=0
  for list in "$@"; do runs "${list%% *}" && working=1; done
  [ $working = 1 ] || break
  sleep 1
done

for list in "$@"; do
  gpu=${list%% *}
  if [ "$limit" -eq 0 ] && runs "$gpu"; then
    kill -INT -- "-$(< "$folder/$gpu.pid")"
    for _ in {1..60}; do runs "$gpu" && sleep 1; done
  fi
  echo "== GPU $gpu: $([ -e "$folder/$gpu.ended" ] && echo ended || { runs "$gpu" && echo works || echo stopped; })"
  tail -n 12 "$folder/$gpu.log" 2> /dev/null
  newest=$(ls -t "$folder/$gpu"/*.log 2> /dev/null | head -1)
  [ -z "$newest" ] || { echo "-- ${newest##*/}"; tail -n 4 "$newest" | cut -c1-150; }
done
