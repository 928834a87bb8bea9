"""Episodes as strips of frames, one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from reachcost.results.figures import TITLE_SIZE, new_figure, write_picture


def draw_film(strips: Mapping[str, np.ndarray], captions: Sequence[str], path: Path, heading: str) -> None:
    """Write a PNG of one strip of frames uint8 [T, height, width, 3] for each name, with a caption for each frame."""
    figure = new_figure(1.5 * len(captions), 1.65 * len(strips) + 0.6, heading)
    panels = figure.subplots(len(strips), len(captions), squeeze=False)
    for name, frames, line in zip(strips, strips.values(), panels, strict=True):
        for frame, axes in zip(frames, line, strict=True):
            axes.imshow(frame, interpolation="none")
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=TITLE_SIZE)
    for caption, axes in zip(captions, panels[0], strict=True):
        axes.set_title(caption, fontsize=TITLE_SIZE)
    write_picture(figure, path)
