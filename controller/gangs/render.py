"""A refusal in one line of bounded length."""

from typing import Final

from controller.gangs.gang import DomainVerdict, GangRefusal

_MOST_DOMAINS: Final = 3


def render(refusal: GangRefusal, most: int = _MOST_DOMAINS) -> str:
    """Why no domain takes the gang: the closest ``most`` domains, how many members fit there, and what is missing.

    Of nested domains, the outermost that were looked at are named: they hold the others.
    """
    if refusal.faults:
        return "; ".join(map(str, refusal.faults[:most]))
    if not refusal.verdicts:
        return "there are no nodes"
    depth = min(len(verdict.domain.path) for verdict in refusal.verdicts)
    outermost = [verdict for verdict in refusal.verdicts if len(verdict.domain.path) == depth]
    closest = sorted(outermost, key=lambda verdict: (verdict.placed - verdict.needed, verdict.decided), reverse=True)
    text = "; ".join(map(_sentence, closest[:most]))
    more = len(closest) - most
    if more > 0:
        text += f"; no more in {more} other domain" + ("s" if more > 1 else "")
    if refusal.wait is not None:
        text += f"; a wider domain is taken in {-int(-refusal.wait // 1)} s"
    return text


def _sentence(verdict: DomainVerdict) -> str:
    if not verdict.decided:
        return f"whether {verdict.needed} members fit in {verdict.domain} is not decided yet"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.placed} of {verdict.needed} members fit in {verdict.domain}{reason}"
