#!/bin/sh
# Train the embedded model: two single-thread processes that average their gradients.
#   training/run.sh OUT     (OUT/weights is the model folder, OUT/0.log the log)
set -eu
here=$(dirname "$0")
mkdir -p "$1"
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=2
RANK=1 "${PYTHON:-python}" "$here/train.py" "$1/weights" > "$1/1.log" 2>&1 &
RANK=0 "${PYTHON:-python}" "$here/train.py" "$1/weights" > "$1/0.log" 2>&1
wait
