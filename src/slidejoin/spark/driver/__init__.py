"""The driver side: checks of the inputs, the plan of operators, explanations."""
