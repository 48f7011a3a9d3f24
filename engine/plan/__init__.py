"""What a model's keys, values and weights take, by arithmetic alone: no weights are read, no torch is needed."""
