"""What a run has shown: a table for people, an object for programs."""
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Happened:
    """A fault and what came of it. The gap is that of the client that was hit hardest."""
    number: int
    kind: str
    victim: str
    seconds: float
    recovery_s: float  # from the end of the fault until the cluster was whole again
    gap_s: float

    def __str__(self):
        return (f"  {self.number:4}  {self.kind:22} {self.victim:8} {self.seconds:5.2f} s   whole again after "
                f"{self.recovery_s:5.2f} s   gap {self.gap_s * 1000:6.0f} ms")


def percentile(values, share):
    """The smallest value that this share of all does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def figures_of(events):
    """By kind: the number of faults, the gap at the client in ms, the recovery in s."""
    rows = {}
    for kind in sorted({event.kind for event in events}):
        of_kind = [event for event in events if event.kind == kind]
        gaps = [round(event.gap_s * 1000, 1) for event in of_kind]
        recoveries = [round(event.recovery_s, 2) for event in of_kind]
        rows[kind] = {"faults": len(of_kind), "gap_ms_p50": percentile(gaps, 0.5), "gap_ms_p99": percentile(gaps, 0.99),
                      "gap_ms_max": max(gaps), "recovery_s_p50": percentile(recoveries, 0.5),
                      "recovery_s_max": max(recoveries)}
    return rows


def table(rows):
    lines = [f"  {'fault':22}{'number':>8}{'gap p50':>10}{'p99':>8}{'max':>8} ms {'whole p50':>10}{'max':>7} s"]
    for kind, row in rows.items():
        lines.append(f"  {kind:22}{row['faults']:8}{row['gap_ms_p50']:10.0f}{row['gap_ms_p99']:8.0f}{row['gap_ms_max']:8.0f}"
                     f"    {row['recovery_s_p50']:10.2f}{row['recovery_s_max']:7.2f}")
    return "\n".join(lines)


def outcome(run):
    """All figures of a run, as one object."""
    clients = run.clients
    return {
        "seed": run.seed,
        "faults": len(run.events),
        "kinds": figures_of(run.events),
        "left_out": run.left_out,
        "quiet_gap_ms": round(run.quiet_gap_s * 1000, 1),
        "turns": sum(client.turns for client in clients),
        "tokens": sum(client.tokens for client in clients),
        "turns_taken_over": sum(client.taken_over for client in clients),
        "wrong_answers": sum(client.wrong for client in clients),
        "client_errors": sum(client.errors for client in clients),
        "tokens_diverged": run.diverged,
        "leftovers": run.leftovers,
        "violations": run.violations,
        "seconds": round(run.seconds, 1),
    }


def summary(figures):
    """The same for people."""
    left_out = f"\n  left out: {', '.join(figures['left_out'])} (this machine or its rights do not allow them)"
    return f"""
{table(figures["kinds"])}
  without a fault the longest gap was {figures["quiet_gap_ms"]:.0f} ms{left_out if figures["left_out"] else ""}

  clients             {figures["turns"]} turns, {figures["tokens"]} tokens; {figures["turns_taken_over"]} turns changed hands
  wrong answers       {figures["wrong_answers"]}
  client errors       {figures["client_errors"]}
  contradictions      {figures["tokens_diverged"]}
  leftovers           {len(figures["leftovers"])}
  violations          {len(figures["violations"])} in {figures["faults"]} faults, {figures["seconds"]:.0f} s"""
