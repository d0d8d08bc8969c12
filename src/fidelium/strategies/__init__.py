"""Strategies: what to evaluate next. `dnn_mfbo` is the paper's method, `recipes` has the methods it compares with."""
