"""The machine under the cases: which device is meant, what it can do, and whether it is fit."""
