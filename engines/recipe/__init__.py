"""The recipe that makes the engines: data set, training, export."""
