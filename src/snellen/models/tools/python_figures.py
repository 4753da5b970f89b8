"""The matplotlib backend of the tool `python`, inside the sandbox: a figure that is shown becomes figure-1.png, figure-2.png …

Source of the interface: matplotlib, "Writing a backend -- the pyplot interface" (`FigureManagerBase.pyplot_show`).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg


class FigureManager(FigureManagerBase):
    """A figure that is saved into the home folder, which is the working folder, when it is shown."""

    def show(self) -> None:
        """Save the figure under the next free name."""
        paths = (Path.home() / f"figure-{number}.png" for number in itertools.count(1))
        self.canvas.figure.savefig(next(path for path in paths if not path.exists()))

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Save all figures, and close them as notebooks do."""
        for manager in Gcf.get_all_fig_managers():
            manager.show()
        Gcf.destroy_all()


class FigureCanvas(FigureCanvasAgg):
    """The canvas whose figures are saved when they are shown."""

    manager_class: Any = FigureManager
