#!/bin/bash
# Run a benchmark in sixteen parts on a Slurm cluster, then merge them:
#   job=$(sbatch --parsable examples/slurm/array.sh)
#   sbatch --dependency=afterany:$job examples/slurm/merge.sh
# A task that Slurm requeues goes on where it was: answered samples are not asked again.
#SBATCH --job-name=snellen
#SBATCH --array=1-16
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --output=slurm-%A_%a.log
set -euo pipefail

# Forward the signal that Slurm sends two minutes before the end: pending requests are completed and recorded.
trap 'kill -TERM "$run"; wait "$run"' TERM

snellen run "${BENCHMARK:-chart/digits}" \
    --model "${MODEL:-embedded}" \
    --shard "${SLURM_ARRAY_TASK_ID}/${SLURM_ARRAY_TASK_COUNT}" \
    --out "${OUT:-results/parts}" &
run=$!
wait "$run"
