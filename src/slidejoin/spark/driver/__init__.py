"""What runs on the driver: checks of the inputs, the plan of operators, explanations."""
