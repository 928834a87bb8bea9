#!/bin/sh
# Trains the published world models again (zoo/ and src/reachcost/worldmodels/zoo): each on one core, two at a time, less than an hour.
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
test -e "$out/pusht.h5" || reachcost logs generate pusht --seed 1 --out "$out/pusht.h5"
for seed in 3072 3073 3074; do
    reachcost train-model lewm --task pusht --size objects --logs "$out/pusht.h5" --seed $seed --threads 1 --out "$out/lewm-pusht-$seed" &
    eval "pusht$seed=$!"
    test $seed = 3072 || wait $pusht3072
done
wait $pusht3073
wait $pusht3074
test -e "$out/layouts.h5" || reachcost logs generate reachcost_paper.worlds.layouts:VariedTwoRoom --episodes 16000 --seed 1 --out "$out/layouts.h5"
reachcost train-model lewm --task reachcost_paper.worlds.layouts:VariedTwoRoom --logs "$out/layouts.h5" --size wide --threads 1 --out "$out/lewm-layouts-3072"
