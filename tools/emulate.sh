#!/bin/sh
# Runs the doctor, the self-test and three steps of training on AMD's emulator, for each GPU.
# NOT RUN BY THIS PROJECT YET: it needs Docker and a network, which CI lacks.
#   tools/emulate.sh                     every target below
#   tools/emulate.sh gfx1100 gfx942      these targets
# It builds the full worker's image, and in it rocjitsu of ROCm/rocm-systems (MIT), which emulates the
# driver and the instructions of a GPU on the CPU. The results are in build/emulated. Source of the
# commands: emulation/rocjitsu/docs/building.md and rocjitsu-cli.md there, read 2026-11-23.
set -eu
cd "$(dirname "$0")/.."

REF=${ROCJITSU_REF:-develop}
HOURS=${EMULATED_HOURS:-2}  # limit of one command: emulation takes thousands of times as long
OUT=build/emulated
SOURCE=$OUT/rocm-systems
IMAGE=redkiln-worker:rocm-emulated

stop() { printf '%s\n' "$*" >&2; exit 1; }

config() { # the emulator's description of a GPU
  case $1 in
    gfx90a) echo gfx90a_mi210_kmd ;;
    gfx942) echo gfx942_cdna3_kmd ;;
    gfx950) echo gfx950_mi355x_kmd ;;
    gfx1100) echo gfx1100_w7900 amdgpu_rdna3_gfx1100_w7900_kmd ;;
    gfx1151) echo gfx1151 ;;
    gfx1201) echo gfx1201_r9700 amdgpu_rdna4_gfx1201_r9700_kmd ;;
    gfx1250) echo gfx1250_mi455x_kmd ;;
    *) return 1 ;;
  esac
}

check_machine() {
  [ "$(uname -m)" = x86_64 ] || stop "The emulator needs an x86-64 machine; this is $(uname -m)."
  command -v git >/dev/null || stop "git is missing: install it, and run this again."
  command -v docker >/dev/null || stop "Docker is missing: install Docker Engine 25 or newer."
  docker info >/dev/null 2>&1 || stop "Docker does not answer: start its engine, or add yourself to the group docker."
}

fetch_emulator() {
  [ -d "$SOURCE/.git" ] || git clone --quiet --depth 1 --branch "$REF" --filter=blob:none --sparse \
    https://github.com/ROCm/rocm-systems "$SOURCE" \
    || stop "github.com/ROCm/rocm-systems ($REF) cannot be fetched: check the network, or set ROCJITSU_REF."
  git -C "$SOURCE" sparse-checkout set emulation/rocjitsu
  git -C "$SOURCE" log -1 --format='rocjitsu of %h, %cs' | tee "$OUT/version.txt"
}

in_image() { # runs a command in the worker's image, with the emulator's source and the results
  timeout "${HOURS}h" docker run --rm --user 0 --entrypoint sh --shm-size 8g \
    --volume "$PWD/$SOURCE/emulation/rocjitsu:/rocjitsu" --volume "$PWD/$OUT:/out" \
    --volume "$PWD/tools:/tools:ro" --env PYTHONPATH=/app "$IMAGE" -euc "$1"
}

build() {
  REDKILN_TAG=emulated docker compose -f compose.yaml --env-file /dev/null build worker \
    || stop "The worker's image cannot be built; it needs 70 GB of disk and AMD's image from Docker Hub."
  in_image '{ command -v cmake && command -v ninja; } >/dev/null || python -m pip install --quiet cmake ninja
            cmake -S /rocjitsu -B /rocjitsu/build -G Ninja -DCMAKE_BUILD_TYPE=Release >/out/build.log
            cmake --build /rocjitsu/build >>/out/build.log' \
    || stop "The emulator cannot be built: $OUT/build.log says why."
}

find_config() { # the first description that this release has
  for name in $(config "$1"); do
    [ ! -f "$SOURCE/emulation/rocjitsu/configs/$name.json" ] || { echo "$name"; return; }
  done
  stop "The emulator ($REF) has no description of $1: see $SOURCE/emulation/rocjitsu/configs."
}

emulate() { # one command on one target; says how it ended, and keeps its output
  log=$OUT/$1-$3.log
  if in_image "exec \$(find /rocjitsu/build -name rocjitsu -type f -perm -u+x | head -n 1) \
      --daemon --config /rocjitsu/configs/$2.json -- $4" >"$log" 2>&1
  then echo "$1 $3: passed"; else echo "$1 $3: FAILED with status $? ($log)"; failed=yes; fi
}

failed=
[ $# -gt 0 ] || set -- gfx90a gfx942 gfx950 gfx1100 gfx1151 gfx1201 gfx1250
for target; do config "$target" >/dev/null || stop "The emulator has no target $target."; done
check_machine
mkdir -p "$OUT"
fetch_emulator
build
for target; do
  described=$(find_config "$target")
  emulate "$target" "$described" doctor 'python -m worker.hardware doctor --test'
  emulate "$target" "$described" selftest 'python -m worker.hardware.selftest --quick'
  emulate "$target" "$described" training 'python /tools/three_steps.py'
done
[ -z "$failed" ]
