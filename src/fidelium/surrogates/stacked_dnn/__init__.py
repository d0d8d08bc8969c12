"""The stack of networks of DNN-MFBO, one per fidelity, each fed with x and the output of the one below, eq. (mf-dnn).

`features` holds the networks below their last layer, `posterior` what is known once the last layers' weights have a
Gaussian q(w_m), `variational` the paper's way to learn it and `closed_form` ours.
"""
