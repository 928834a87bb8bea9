#!/bin/sh
# Trains the bundled world models anew (src/reachcost/worldmodels/zoo): two at a time, each on one core, half an hour.
set -e
out=${1:?give a directory}
mkdir -p "$out"
test -e "$out/logs.h5" || reachcost logs generate tworoom --seed 1 --out "$out/logs.h5"
for seed in 3072 3073 3074; do
    for kind in lewm pldm; do
        reachcost train-model $kind --logs "$out/logs.h5" --seed $seed --threads 1 --out "$out/$kind-tworoom-$seed" &
        eval "$kind=$!"
    done
    wait $lewm
    wait $pldm
done
