"""What the stages share: options, runs, sets of neurons, interventions, contrasts, questions and answers."""
