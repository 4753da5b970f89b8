#!/bin/bash
# Merge the parts that examples/slurm/array.sh ran, and score them. The exit status is 9 if samples have no answer.
#SBATCH --job-name=snellen-merge
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --output=slurm-%j.log
set -euo pipefail

snellen merge "${MERGED:-results/merged}" "${OUT:-results/parts}"
