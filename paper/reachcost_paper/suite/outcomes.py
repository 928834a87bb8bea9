"""Whether verdicts were right, and the lines of a table that say how often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reachcost.audits.verdict import CANNOT_TELL
from reachcost.results.stats import wilson
from reachcost.results.tables import TableRow
from reachcost_paper.worlds.faults import FAULTS

NOTHING = "nothing"
SIMULATOR, LOGS_ONLY = "simulator", "logs-only"
JUDGED = ("right", "wrong", "cannot_tell")


@dataclass(frozen=True)
class Outcome:
    """A planner, whole or broken, and what audits say of it."""

    world: str
    """Where."""
    condition: str
    """What was planted: `nothing`, or one of `FAULTS`."""
    episodes: int
    """How many ran."""
    success: float
    """% of them that succeeded."""
    succeeds: bool
    """Whether that is enough."""
    verdicts: Mapping[str, str]
    """What the audit said, by setting."""

    @property
    def harmless(self) -> bool:
        """Whether a fault was planted and episodes succeed all the same."""
        return self.condition != NOTHING and self.succeeds

    def expected(self, setting: str) -> str:
        """The right verdict: what was planted; `none` where there is, or the simulator shows, nothing to blame."""
        if self.condition == NOTHING:
            return "none"
        fault = FAULTS[self.condition]
        told = setting == SIMULATOR or fault.only_by_harm
        return "none" if self.succeeds and told else fault.stage

    def judged(self, setting: str) -> str:
        """`right`, `wrong` or `cannot_tell`."""
        said = self.verdicts[setting]
        return "right" if said == self.expected(setting) else "cannot_tell" if said == CANNOT_TELL else "wrong"


def summary_rows(found: Sequence[Outcome], tuned: Iterable[str]) -> list[TableRow]:
    """Shares over the worlds that nothing was chosen on, in all and by fault, over the others, then every outcome."""
    tuned = {*tuned}
    held_back, others = ([one for one in found if (one.world in tuned) == chosen] for chosen in (False, True))
    conditions = dict.fromkeys(one.condition for one in found)
    return [
        *_in_all("", "held-back worlds", held_back),
        *(
            _share(condition, "held-back worlds", setting, [one for one in held_back if one.condition == condition])
            for condition in conditions
            for setting in (SIMULATOR, LOGS_ONLY)
        ),
        *_in_all("tuned: ", "tuned worlds", others),
        *(_line(one, one.world in tuned) for one in found),
    ]


def _in_all(prefix: str, worlds: str, found: Sequence[Outcome]) -> Iterator[TableRow]:
    """Shares of all planners, of those that fail, and of those that succeed although they are broken."""
    kinds = {
        "all": found,
        "failing": [one for one in found if not one.succeeds],
        "harmless": [one for one in found if one.harmless],
    }
    for kind, those in kinds.items():
        for setting in (SIMULATOR, LOGS_ONLY):
            yield _share(prefix + kind, worlds, setting, those)


def _share(cost: str, worlds: str, setting: str, found: Sequence[Outcome]) -> TableRow:
    counts = {judged: sum(one.judged(setting) == judged for one in found) for judged in JUDGED} if found else {}
    return TableRow(
        cost=cost,
        model=worlds,
        n=len(found),
        ours={judged: 100 * count / len(found) for judged, count in counts.items()},
        interval={judged: [100 * bound for bound in wilson(count, len(found))] for judged, count in counts.items()},
        paper=None,
        setting=setting,
    )


def _line(one: Outcome, tuned: bool) -> TableRow:
    told = [f"{setting}: {said} ({one.judged(setting).replace('_', ' ')})" for setting, said in one.verdicts.items()]
    return TableRow(
        cost=one.condition,
        model=f"{one.world}*" if tuned else one.world,
        n=one.episodes,
        ours={"success": one.success},
        interval={},
        paper=None,
        setting="; ".join(told),
        extra={
            "verdicts": dict(one.verdicts),
            "expected": {setting: one.expected(setting) for setting in one.verdicts},
        },
    )
