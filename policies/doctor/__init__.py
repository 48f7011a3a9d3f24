"""Why prompts lose their prefix: where one leaves the one before it, which field did it, the cost, the fix."""

from policies.doctor.diagnosis import Ailment, Chart, Diagnosis, merged, summed_up
from policies.doctor.divergence import Divergence, diverge
from policies.doctor.examination import Doctor, Finding, Seen
from policies.doctor.parts import Part, parts_of
from policies.doctor.remedies import REMEDIES

__all__ = [
    "REMEDIES",
    "Ailment",
    "Chart",
    "Diagnosis",
    "Divergence",
    "Doctor",
    "Finding",
    "Part",
    "Seen",
    "diverge",
    "merged",
    "parts_of",
    "summed_up",
]
