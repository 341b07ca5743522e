"""All models side by side."""

FIGURES["summary summary"] = None, {
    "overlap": [expand(OVERLAP["overlap"][0], model=MODELS), -4, -2],
    "reliability": [expand(OVERLAP["reliability"][0], model=MODELS), -4, -2],
    "interventions": [expand(INTERVENTIONS["interventions"][0], model=MODELS), -4, -3, -2],
    "transfer": [expand(TRANSFERS, model=MODELS), -4, -2, -1],
}
